"""Bayesian networks as models of their own, on the engine of factor graphs.

bayesian_network.py   `BayesianNetwork`: a factor graph in which parents and children are known
stated_tables.py      conditional tables as a user types them
plates.py             one table for every member of a group
conditional_table.py  one conditional table with the names of its rows and columns
separation.py         d-separation, with an open path as the reason
causal_effect.py      effects by adjustment for back-door sets
divergence.py         how far two models are apart, and which tables differ most
forward_samples.py    samples from parents to children
"""
