"""Small graphs for the tests of search, and their optima."""

from __future__ import annotations

import numpy as np

from equifactor import FactorGraph, Status, solve
from equifactor.generators import ising_grid, random_graph


def some_graphs() -> list[FactorGraph]:
    """Return graphs of different arities, cardinalities and zeros, each with at most 2^15 joint states."""
    graphs = [random_graph(8, 14, arity=(1, 4), card=(2, 3), seed=s) for s in range(4)]
    graphs += [random_graph(8, 12, arity=(1, 3), card=(2, 3), zeros=0.3, seed=s) for s in range(4)]
    graphs += [ising_grid(3, 4, seed=s) for s in range(2)]
    graphs.append(FactorGraph([2, 3], [([0, 1], np.ones((2, 3))), ([1, 0], [[1.0, 2.0], [3.0, 4.0], [5.0, 1.0]])]))
    graphs.append(graphs[0].condition({1: 0, 4: 1}))
    return graphs


def optimum(graph: FactorGraph) -> float:
    return solve(graph, "MAP", "brute").log_score


def check_never_above_the_optimum(solver: str) -> None:
    """Check that a solver without a proof ends by itself, with a score at most the optimum."""
    for graph in some_graphs():
        got = solve(graph, "MAP", solver, seed=5)
        assert got.log_score <= optimum(graph) + 1e-9
        assert got.status is Status.CONVERGED
