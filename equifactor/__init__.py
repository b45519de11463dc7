"""Inference on discrete factor graphs: marginals, ln Z and MAP by exact, classical and learned solvers.

>>> import equifactor as ef
>>> graph = ef.FactorGraph([2, 2], [([0], [1.0, 3.0]), ([0, 1], [[2.0, 1.0], [1.0, 2.0]])])
>>> ef.solve(graph, "MAR", "brute").marginals[0]
array([0.25, 0.75])

The public names are listed in `__init__.pyi`. Each is imported when it is first used, so that a plain `solve` imports
neither torch nor anything else that it does not need.
"""

from equifactor._version import __version__ as __version__
from equifactor.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    __file__,
    replaced={
        "EvidenceRows": "equifactor.solve(graph, evidence=[..], targets=[..])",
        "exact_marginals": 'equifactor.solve(graphs, "MAR", "exact")',
        "solve_many": "equifactor.solve(graph, evidence=[..], targets=[..])",
    },
)
