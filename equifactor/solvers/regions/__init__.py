"""Regions of bounded size: variables are split into clones until exact inference fits, and clones are made to agree.

Symbols: a clone c of variable i stands for i in some of its factors. m_c(x) is what the part of the model around the
clone says about its state, u_c(x) = prod over the other clones c' of i of m_c'(x) what all others say. Both are logs.
"""
