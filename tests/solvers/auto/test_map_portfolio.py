from __future__ import annotations

from equifactor import FactorGraph, Status
from equifactor.clock import Clock
from equifactor.solver import SolveContext
from equifactor.solvers.auto.map_portfolio import MapPortfolio
from equifactor.solvers.elimination.shrink import shrink


def test_a_bound_of_minus_infinity_ends_it() -> None:
    """Each table supports all states, but two of them together force variable 0, and two others its other state."""
    graph = FactorGraph(
        [2, 2, 2],
        [
            ([0, 1], [[1, 1], [0, 1]]),
            ([0, 1], [[1, 1], [1, 0]]),
            ([0, 2], [[0, 1], [1, 1]]),
            ([0, 2], [[1, 0], [1, 1]]),
        ],
    )
    shrunk = shrink(graph, 1)  # tables of one scope merged, nothing eliminated
    assert shrunk is not None
    assert shrunk.graph.num_vars == 3
    assert MapPortfolio(shrunk, SolveContext(clock=Clock()), 1e-7).solve(10.0).status is Status.ZERO_PROBABILITY
