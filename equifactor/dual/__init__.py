"""Dual ascent for MAP: messages that lower the bound of appendix C, and assignments decoded from them.

Symbols: m_{a->i} = messages [S], total_i = sum_a m_{a->i} [X], log f_a = log_phi [T]; natural logs, -inf marks a state
that is proven impossible. The bound is sum_a max (log f_a - sum_i m_{a->i}) + sum_i max total_i.
"""
