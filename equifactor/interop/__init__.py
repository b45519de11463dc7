"""Conversion from and to models of other packages: one module per package, which is imported when it is needed.

pgmpy.py, pyagrum.py    Bayesian networks, Markov networks, factor graphs
networkx.py             bipartite graphs of variables and factors, graphs with tables on nodes and edges
pyg.py                  graphs for neural networks in PyTorch Geometric
labels.py               names of variables and states, which may be any objects in other packages
distributions.py        a check of conditional distributions
plain_factors.py        a graph as dense tables without evidence, the form that other packages have
"""

from equifactor.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
