"""Elimination of cheap variables: the same optimum, and the mapping back to all variables."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import FactorGraph, Status, solve
from equifactor.generators import ising_grid, random_graph, random_tree
from equifactor.solvers.elimination.shrink import shrink
from equifactor.testing import contract_graphs

GRAPHS = [random_graph(9, 14, arity=(1, 4), card=(2, 3), zeros=z, seed=s) for s in range(6) for z in (0.0, 0.3)]
GRAPHS += [ising_grid(3, 4, seed=0), GRAPHS[0].condition({1: 0, 4: 1})]


@pytest.mark.parametrize("most", [1, 8, 64, 512])
@pytest.mark.parametrize("graph", GRAPHS, ids=range(len(GRAPHS)))
def test_same_optimum(graph: FactorGraph, most: int) -> None:
    want = solve(graph, "MAP", "brute")
    shrunk = shrink(graph, most)
    if want.status is Status.ZERO_PROBABILITY:
        assert shrunk is None or solve(shrunk.graph, "MAP", "brute").status is Status.ZERO_PROBABILITY
        return
    assert shrunk is not None
    inner = solve(shrunk.graph, "MAP", "brute") if shrunk.graph.num_vars else shrunk.optimum()
    full = shrunk.assignment(inner.assignment if shrunk.graph.num_vars else np.zeros(0, np.int64))
    assert graph.log_score(full) == pytest.approx(want.log_score)
    if shrunk.graph.num_vars:
        assert inner.log_score == pytest.approx(want.log_score)
        assert np.array_equal(shrunk.states(full), inner.assignment)


@pytest.mark.parametrize("name", contract_graphs())
def test_contract_graphs(name: str) -> None:
    graph = contract_graphs()[name]
    want = solve(graph, "MAP", "brute")
    shrunk = shrink(graph)
    if want.status is Status.ZERO_PROBABILITY:
        assert shrunk is None or shrunk.graph.num_vars or shrunk.optimum().status is Status.ZERO_PROBABILITY
    elif shrunk is not None and not shrunk.graph.num_vars:
        assert shrunk.optimum().lower_bound == pytest.approx(want.log_score)


def test_any_state_of_the_rest_is_completed_at_its_best() -> None:
    graph = random_graph(8, 12, arity=(1, 3), card=(2, 3), seed=5)
    shrunk = shrink(graph, 12)
    assert shrunk is not None
    assert 0 < shrunk.graph.num_vars < graph.num_vars
    rng = np.random.default_rng(0)
    free = shrunk.free_part.variables
    kept = shrunk.kept if free is None else free[shrunk.kept]
    for _ in range(5):
        states = rng.integers(0, shrunk.graph.card)
        best = solve(graph.condition(dict(zip(kept.tolist(), states.tolist(), strict=True))), "MAP", "brute").log_score
        assert graph.log_score(shrunk.assignment(states)) == pytest.approx(best)
        assert shrunk.graph.log_score(states) == pytest.approx(best)


def test_trees_vanish_and_pairs_stay_pairs() -> None:
    tree = shrink(random_tree(40, seed=1))
    assert tree is not None
    assert tree.graph.num_vars == 0
    assert tree.optimum().status is Status.OPTIMAL
    grid = shrink(ising_grid(6, 6, seed=1), widest=2)
    assert grid is not None
    assert grid.graph.num_vars < 36  # its corners have two neighbours
    assert np.diff(grid.graph.structure.scope_ptr).max() == 2


def test_factors_of_one_scope_become_one() -> None:
    table = np.array([[1.0, 2.0], [3.0, 4.0]])
    graph = FactorGraph([2, 2], [([0, 1], table), ([1, 0], table), ([0], [1.0, 5.0]), ([0], [2.0, 1.0])])
    shrunk = shrink(graph, 1)
    assert shrunk is not None
    assert shrunk.graph.num_factors == 2
    for states in np.ndindex(2, 2):
        assert shrunk.graph.log_score(np.array(states)) == pytest.approx(graph.log_score(np.array(states)))


def test_contradicting_tables_leave_no_assignment() -> None:
    same, different = [[1, 0], [0, 1]], [[0, 1], [1, 0]]  # every state has support in each of them
    graph = FactorGraph([2, 2], [([0, 1], same), ([0, 1], different)])
    assert shrink(graph, 1) is None
    assert shrink(graph) is None
