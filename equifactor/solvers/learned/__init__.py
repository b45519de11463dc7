"""Learned inference: message-passing networks on compiled factor graphs, CPU and GPU, any batch of graphs.

Each file `fe_net.py`, `bpnn.py` and so on holds one kind of network: its settings, the network and its solver.

network.py           what a network is                     learned_solver.py    what its solver is
wiring.py            what a network sees of a batch        network_run.py       one run of a network on a batch
layers.py            small building blocks                 table_features.py    tables as plain feature vectors
loop_corrections.py  exact corrections around short loops  replay.py            a network captured once on a GPU
model_files.py       weights on disk                       model_card.py        what a model file says about itself
bp_layer.py          belief propagation as a differentiable layer

Symbols: V variables, X variable states, E edges and S edge states (of all factors), T table entries, G graphs, H
channels. E2 and S2 are the edges and edge states of the factors of two variables and more alone; unary factors come
first in the order of a compiled batch, so these are the last ones. old and new are m_prev and m~ of the paper, both
factor-to-variable; msg_vf is m_{i->a}; h, u and q are hidden vectors of an edge state.
"""
