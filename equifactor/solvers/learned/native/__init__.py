"""The networks without torch, on one core: `fe-net`, `fe-nbp` and `fe-gnn` on a CPU.

Messages are double precision, hidden vectors single precision. Channels are the first axis and edge states the last:
[S2] or [H, S2]. Every operation then runs over long contiguous rows. Layers are compiled loops. Until these are
compiled and loaded, layers are matrix products of NumPy.

native_wiring.py  what a network sees of a batch   native_tables.py   messages through tables and structured factors
native_layers.py  layers and their weights         native_loops.py    corrections around short loops
native_run.py     one run of a network on a batch  native_fe_*.py     the networks
network_kernels.py layers as compiled loops        step_kernels.py    the other parts of a step of FE-Net
native_kernels.py the loop over structured factors

The networks in torch define what is computed, and the tests compare both.
"""
