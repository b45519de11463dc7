from __future__ import annotations

from equifactor import FactorGraph, Status
from equifactor.base.clock import Clock
from equifactor.solvers.auto.map_portfolio import MapPortfolio
from equifactor.solvers.elimination.shrink import shrink
from equifactor.solving.solver import SolveContext


def test_a_bound_of_minus_infinity_ends_it() -> None:
    """Each table supports all states, but around a triangle two variables must be equal and must differ."""
    equal, differ = [[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    graph = FactorGraph([3, 3, 3], [([0, 1], equal), ([1, 2], equal), ([0, 2], differ)])
    shrunk = shrink(graph, 1)  # nothing is eliminated
    assert shrunk is not None
    assert shrunk.graph.num_vars == 3
    assert MapPortfolio(shrunk, SolveContext(clock=Clock()), 1e-7).solve(10.0).status is Status.ZERO_PROBABILITY
