"""The networks in plain NumPy: one core, no torch, nothing to compile. It runs `fe-net`, `fe-nbp` and `fe-gnn` on CPUs.

Messages are double precision, hidden vectors single precision. Channels are the first axis and edge states the last:
[S2] or [H, S2]. Every operation then runs over long contiguous rows, and a layer is one matrix product by BLAS.

native_wiring.py  what a network sees of a batch   native_tables.py  messages through dense tables and structured factors
native_layers.py  layers and their weights         native_loops.py   corrections around short loops
native_run.py     one run of a network on a batch  native_fe_*.py    the networks

The networks in torch define what is computed, and the tests compare both.
"""
