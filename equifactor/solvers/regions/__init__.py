"""Regions of bounded size: variables are split into clones until exact inference fits, and clones are made to agree.

Symbols: a clone c of variable i stands for i in some of its factors. m_c(x) is the message from the clone: its
marginal divided by u_c(x). u_c(x) = prod over the other clones c' of i of m_c'(x) is the message to the clone. Both are
logs.
"""
