"""Models of other packages, there and back: one module per package, which is imported when it is needed.

pgmpy.py, pyagrum.py    Bayesian networks, Markov networks, factor graphs
networkx.py             bipartite graphs of variables and factors, graphs with tables on nodes and edges
pyg.py                  graphs for networks in PyTorch Geometric
labels.py               names of variables and states, which elsewhere may be any objects
distributions.py        conditional distributions that are read
plain_factors.py        a graph as the others can hold it: tables of probabilities, no evidence
"""

from equifactor.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
