"""Message passing: belief propagation, plain, around loops and tree-reweighted, and naive mean field.

Symbols: m_{a->i} = msg_fv [S], m_{i->a} = msg_vf [S], log b_i = log_b_v [X]; all natural logs, -inf is a true zero.
Messages of unary factors are their tables, from the start and for ever; all others start uniform.
"""
