"""Bayesian networks in time: filtering, smoothing, prediction, decoding and fitting of sequences.

dynamic_network.py    `DynamicNetwork`: a first slice, and a transition from each slice to the next
observed_rows.py      observations as a user types them
slice_model.py        the network as arrays: the state of a slice, and the parts that depend on it alone
chained_products.py   the step from one slice to the next
slice_sums.py         forward and backward passes            slice_marginals.py   from states to variables
best_sequences.py     the most probable sequence             dynamic_fit.py       tables from sequences
chain_steps.py, chain_sums.py, chain_kernels.py     factorial models: compiled passes over groups of chains
state_kernels.py      compiled passes for long sequences     unrolled_answers.py  any solver, for large slices
trajectory.py         what these return
"""
