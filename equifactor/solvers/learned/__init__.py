"""Learned inference: message-passing networks on compiled factor graphs, CPU and GPU, any batch of graphs.

Each file `bpnn.py`, `nebp.py` and so on holds one kind of network in torch: its settings, the network and its solver.
`fe_net_solver.py`, `fe_nbp_solver.py` and `fe_gnn_solver.py` hold settings and solvers that need no torch. Their
networks are in `fe_net.py` and so on for torch, and in `native/` without torch.

network.py           the base class of networks            learned_solver.py    the base class of their solvers
network_config.py    the base class of their settings      neural_bp.py         solvers that improve BP
network_trust.py     how far marginals may leave BP        best_assignments.py  the best assignments of a MAP run
model_weights.py     weights read without torch
wiring.py            what a network sees of a batch        network_run.py       one run of a network on a batch
layers.py            small building blocks                 table_features.py    tables as plain feature vectors
loop_corrections.py  exact corrections around short loops  loop_places.py       where short loops are
replay.py            a network captured once on a GPU
model_files.py       weights on disk                       model_card.py        the description in a model file
bp_layer.py          belief propagation as a differentiable layer

Symbols: V variables, X variable states, E edges and S edge states (of all factors), T table entries, G graphs, H
channels. E2 and S2 are the edges and edge states of factors with two or more variables. A compiled batch lists unary
factors first, so these edges and edge states come last. old and new are m_prev and m~ of [Sun21], both
factor-to-variable; msg_vf is m_{i->a}; h, u and q are hidden vectors of an edge state.
"""

from equifactor.base.lazy_names import lazy_names

_REPLACED = {"Beliefs": "answers.Beliefs", "beliefs": "beliefs", "load_model": "learned.load_model"}
__getattr__ = lazy_names(__name__, "", {old: f"equifactor.{new}" for old, new in _REPLACED.items()})[0]
