"""Message passing: belief propagation, tree-reweighted belief propagation, naive mean field.

Symbols: m_{a->i} = msg_fv [S], m_{i->a} = msg_vf [S], log b_i = log_b_v [X]; all natural logs, -inf is a true zero.
The message of a unary factor is its table and never changes. All other messages start uniform.
"""
