"""Smaller graphs with the same answers, and the way back to answers of the original graph."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from equifactor import FactorGraph, solve
from equifactor.base.status import Status
from equifactor.generators import random_graph
from equifactor.graph import reduction
from equifactor.graph.possible_states import possible_states
from equifactor.graph.reduction import ReducedGraph, to_free_part, without_impossible_states, without_observed
from equifactor.solvers.search.toulbar2 import Toulbar2
from equifactor.solving.estimate import Estimate
from equifactor.testing import contract_graphs

EQUAL = [[1, 0], [0, 1]]


def reduced(graph: FactorGraph) -> ReducedGraph:
    (found,) = without_impossible_states([graph])
    assert found is not None
    return found


def test_a_graph_without_zeros_is_the_same_object() -> None:
    graph = random_graph(6, 8, card=(2, 3), seed=1)
    assert reduced(graph).graph is graph


def test_single_states_and_unary_zeros_are_observed() -> None:
    graph = FactorGraph([1, 3, 2], [([1], [0, 2, 0]), ([1, 2], [[1, 2], [3, 4], [5, 6]])])
    assert reduced(graph).graph.evidence == {0: 0, 1: 1}


def test_unit_propagation_runs_through_pairs() -> None:
    chain = FactorGraph([2] * 5, [([0], [0, 1]), *(([i, i + 1], EQUAL) for i in range(4))])
    assert reduced(chain).graph.evidence == dict.fromkeys(range(5), 1)


def test_impossible_states_leave_every_table() -> None:
    table = np.arange(1.0, 13.0).reshape(3, 4)
    graph = FactorGraph(
        {"a": ["x", "y", "z"], "b": 4},
        [(["a"], [1, 0, 2]), (["a", "b"], table), (["b"], [3, 1, 4, 0])],
        name="narrow",
    )
    small = reduced(graph).graph
    assert small.card.tolist() == [2, 3]
    assert small.structure.state_names is not None
    assert small.structure.state_names[0] == ("x", "z")
    np.testing.assert_allclose(np.exp(small.log_table(1)), table[[0, 2], :3])
    assert not np.isneginf(small.log_phi).any()
    assert small.name == "narrow"


def test_a_row_of_zeros_in_a_pair_excludes_and_spreads() -> None:
    first = [[1, 1, 0], [1, 1, 0], [2, 1, 0]]  # the last state of variable 1 has no support
    graph = FactorGraph([3, 3, 3], [([0, 1], first), ([1, 2], [[1, 1, 0], [1, 2, 0], [0, 0, 1]])])
    assert reduced(graph).graph.card.tolist() == [3, 2, 2]


def test_a_contradiction_is_none() -> None:
    differ = [[0, 1], [1, 0]]
    assert without_impossible_states([FactorGraph([2], [([0], [1, 0]), ([0], [0, 1])])]) == [None]
    assert without_impossible_states([FactorGraph([2, 2], [([0], [1, 0]), ([1], [1, 0]), ([0, 1], differ)])]) == [None]
    assert without_impossible_states([FactorGraph([2], [([], 0.0), ([0], [1, 1])])]) == [None]
    assert without_impossible_states([FactorGraph([2, 3], [([0, 1], np.zeros((2, 3)))])]) == [None]


def test_graphs_that_lose_the_same_states_share_a_structure() -> None:
    graph = FactorGraph([3, 3], [([0], [1, 0, 2]), ([0, 1], np.ones((3, 3)))])
    others = [graph.with_potentials(np.exp(graph.log_phi) * f) for f in (2.0, 3.0)]
    found = [r.graph.structure for r in without_impossible_states([graph, *others]) if r is not None]
    assert len(found) == 3
    assert found[0] is found[1] is found[2]


def test_forced_variables_keep_structures_apart_and_shared() -> None:
    """A sliced structure is deleted on the way, and the next one may get its id: an id does not identify scopes."""
    unary = [([0], [1, 0]), ([1], [0, 1, 1])]  # variable 0 is forced, variable 1 loses a state
    shape = {0: 2, 1: 3, 2: 2, 3: 2}
    graphs = []
    for scopes in [[(0, 2), (1, 2), (2, 3)], [(0, 2), (1, 3), (2, 3)], [(0, 1), (1, 3), (3, 2)]] * 20:
        pairs = [(scope, np.ones([shape[i] for i in scope])) for scope in scopes]
        graphs.append(FactorGraph([2, 3, 2, 2], [*unary, *pairs]))
    for graph, found in zip(graphs, without_impossible_states(graphs), strict=True):
        assert found is not None
        scopes = [tuple(i for i in graph.structure.scope(a).tolist() if i) for a in range(graph.num_factors)]
        assert [tuple(found.graph.structure.scope(a).tolist()) for a in range(graph.num_factors)] == scopes
    family = [graphs[0], graphs[0].with_potentials(2 * np.exp(graphs[0].log_phi))]
    first, second = (r.graph.structure for r in without_impossible_states(family) if r is not None)
    assert first is second


def test_observed_variables_stay_as_they_are() -> None:
    graph = FactorGraph([3, 3, 2], [([0, 1], np.ones((3, 3))), ([1], [0, 1, 2]), ([1, 2], np.ones((3, 2)))])
    small = reduced(graph.condition({0: 2}))
    assert small.graph.evidence == {0: 2}
    assert small.graph.card.tolist() == [3, 2, 2]
    back = small.estimate(Estimate(status=Status.EXACT, assignment=np.array([2, 0, 1])))
    assert back.assignment is not None
    assert back.assignment.tolist() == [2, 1, 1]


@pytest.mark.parametrize("seed", range(40))
def test_answers_are_those_of_enumeration(seed: int) -> None:
    graph = random_graph(6, 8, card=(1, 4), arity=(1, 3), zeros=0.5, seed=seed)
    if seed % 2:
        graph = graph.condition({seed % 6: int(graph.card[seed % 6]) - 1})
    every = np.array(list(itertools.product(*map(range, graph.card))))
    score = np.exp(graph.log_score(every))
    if not score.any():
        assert solve(graph, "PR", "exact").status is Status.ZERO_PROBABILITY
        return
    for solver in ("exact", "brute"):
        found = solve(graph, "MAR", solver)
        assert found.log_z == pytest.approx(np.log(score.sum()))
        assert found.marginals is not None
        for i, d in enumerate(graph.card):
            want = np.bincount(every[:, i], score, minlength=d) / score.sum()
            np.testing.assert_allclose(found.marginals[i], want, atol=1e-12)
        best = solve(graph, "MAP", solver)
        assert best.log_score == pytest.approx(np.log(score.max()))


@pytest.mark.parametrize("seed", range(20))
def test_only_impossible_states_are_left_out(seed: int) -> None:
    graph = random_graph(6, 8, card=(1, 4), arity=(1, 3), zeros=0.4, seed=seed)
    found = reduced(graph)
    every = np.array(list(itertools.product(*map(range, graph.card))))
    possible = every[np.isfinite(graph.log_score(every))]
    free = set(found.graph.free_vars.tolist())
    ptr = graph.structure.state_ptr
    for i in range(graph.num_vars):
        left = np.arange(graph.card[i])
        if i not in free:
            left = np.array([found.graph.evidence[i]])
        elif found.kept_states is not None:
            left = np.flatnonzero(np.isin(np.arange(ptr[i], ptr[i + 1]), found.kept_states))
        assert set(np.unique(possible[:, i])) <= set(left.tolist())


def test_an_impossible_state_changes_no_network() -> None:
    """An impossible state must not change an answer: learned solvers once read its zeros as strong evidence."""
    rng = np.random.default_rng(0)
    scopes = [[0, 1], [1, 2], [0, 2]]
    tables = [rng.normal(size=(3, 3)) for _ in scopes]
    small = FactorGraph([3] * 3, list(zip(scopes, tables, strict=True)), log=True)
    wide = [np.pad(t, (0, 1), constant_values=-np.inf) for t in tables]
    large = FactorGraph([4] * 3, list(zip(scopes, wide, strict=True)), log=True)
    for solver in ("fe-net", "fe-nbp", "bp"):
        want, found = (solve(g, "MAR", solver).marginals for g in (small, large))
        assert want is not None
        assert found is not None
        np.testing.assert_allclose(found.values.reshape(3, 4)[:, :3], want.values.reshape(3, 3), atol=1e-12)
        assert not found.values.reshape(3, 4)[:, 3].any()


def free_part(graph: FactorGraph) -> ReducedGraph:
    found = to_free_part(graph)
    assert found is not None
    return found


def test_nothing_is_left_out_without_zeros_or_evidence():
    graph = contract_graphs()["loop"]
    left = free_part(graph)
    assert left.graph is graph
    assert left.kept_states is None
    assert left.variables is None


def test_implications_are_followed_along_a_chain():
    copy = np.eye(3)
    chain = [([i, i + 1], copy) for i in range(5)]
    left = free_part(FactorGraph([3] * 6, [([0], [0.0, 0.5, 0.5]), *chain]))
    assert left.graph.card.tolist() == [2] * 6
    assert left.kept_states is not None
    assert (left.kept_states - np.repeat(left.original.structure.state_ptr[:-1], 2)).tolist() == [1, 2] * 6
    decided = free_part(FactorGraph([3] * 6, [([5], [0.0, 0.0, 1.0]), *chain]))
    assert decided.fixed is not None
    assert decided.fixed.tolist() == [2] * 6
    assert decided.graph.num_vars == 0


def test_a_contradiction_is_found():
    differ = 1.0 - np.eye(2)
    graph = FactorGraph([2, 2], [([0, 1], differ), ([0], [1.0, 0.0]), ([1], [1.0, 0.0])])
    assert to_free_part(graph) is None


def test_tables_keep_the_entries_of_live_states_in_order():
    table = np.arange(1.0, 13.0).reshape(3, 4)
    graph = FactorGraph([3, 4], [([0, 1], table), ([1], [1.0, 0.0, 1.0, 0.0])])
    left = free_part(graph)
    assert left.graph.card.tolist() == [3, 2]
    np.testing.assert_allclose(np.exp(left.graph.log_phi[:6]), table[:, [0, 2]].ravel())


def test_answers_come_back_over_all_variables_and_states():
    graph = FactorGraph([2, 3, 2], [([0, 1], np.ones((2, 3))), ([1], [1.0, 0.0, 1.0])]).condition({2: 1})
    left = free_part(graph)
    marginals = left.marginals(np.array([0.25, 0.75, 0.4, 0.6]))
    assert [m.tolist() for m in marginals] == [[0.25, 0.75], [0.4, 0.0, 0.6], [0.0, 1.0]]
    assert left.assignment(np.array([1, 1])).tolist() == [1, 2, 1]
    assert left.states(np.array([1, 2, 1])).tolist() == [1, 1]


def test_no_state_of_positive_probability_is_lost():
    for seed in range(40):
        graph = random_graph(7, 10, arity=(1, 3), card=(2, 4), zeros=0.5, seed=seed)
        left = to_free_part(graph)
        shape = tuple(graph.card)
        states = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
        possible = states[np.isfinite(graph.log_score(states))]
        if left is None:
            assert len(possible) == 0
            continue
        p = left.marginals(np.ones(int(left.graph.card.sum())))
        assert all(p[i][x] > 0 for row in possible for i, x in enumerate(row.tolist()))


def test_a_structure_alone_relies_on_no_zero():
    graph = contract_graphs()["hard zeros"]
    assert np.array_equal(without_observed(graph).graph.card, graph.card)


def test_a_reduction_of_observed_variables_serves_graphs_of_one_structure():
    graph = FactorGraph([2, 3], [([0, 1], np.arange(1.0, 7.0).reshape(2, 3))])
    first, second = graph.condition({0: 0}), graph.condition({0: 1})
    second = FactorGraph.trusted(first.structure, second.log_phi, second.observed)
    shared = without_observed(first).applied_to(second)
    assert shared.assignment(np.array([2])).tolist() == [1, 2]
    np.testing.assert_allclose(np.exp(shared.graph.log_phi), [4.0, 5.0, 6.0])


def test_a_reduction_by_zeros_serves_its_own_graph_only():
    zeros = FactorGraph([2, 3], [([0, 1], np.ones((2, 3))), ([1], [1.0, 0.0, 1.0]), ([0], [0.0, 1.0])])
    left = free_part(zeros)
    with pytest.raises(ValueError, match="zeros of one graph"):
        left.applied_to(zeros.with_potentials(np.ones(11)))


@pytest.mark.parametrize("solver", ["auto", "exact", "branch", "toulbar2"])
def test_the_search_for_impossible_states_is_made_once(solver: str, monkeypatch: pytest.MonkeyPatch):
    """Only `solve` searches for impossible states: plans, bounds and searches assume a consistent graph."""
    graph = random_graph(60, 100, arity=(1, 3), card=(2, 4), zeros=0.1, seed=3)
    searched = []
    monkeypatch.setattr(
        reduction, "possible_states", lambda s, log_phi: searched.append(s) or possible_states(s, log_phi)
    )
    if solver == "toulbar2":  # The package is not needed for its first steps.
        monkeypatch.setattr(Toulbar2, "missing", classmethod(lambda cls: None))
        monkeypatch.setattr(Toulbar2, "_search", lambda self, card, problem, context: (None, 0.0, False, 0))
    solve(graph, "MAP", solver, time_limit=600.0)
    assert searched.count(graph.structure) == 1
    assert len(searched) == len({id(s) for s in searched})
    if solver != "auto":  # Branch and bound may search the smaller graph that elimination leaves.
        assert len(searched) == 1
