"""Rows of evidence give the same answers as conditioning the graph on each row."""

import numpy as np
import pytest

import equifactor as ef
from equifactor.base.errors import ModelError, SolveError
from equifactor.graph.reading.observations import StateNumbers
from equifactor.solvers.elimination.evidence_rows import EvidenceRows


def network(seed: int, zeros: bool = False) -> ef.FactorGraph:
    """Return conditional tables over nine variables of one to four states, two loops, a constant, a lone variable."""
    rng = np.random.default_rng(seed)
    card = [2, 3, 2, 4, 1, 3, 2, 2, 3]
    scopes = [[0], [0, 1], [1, 2], [2, 0, 3], [3, 4], [3, 5], [5, 6, 2], [6, 7], [], [1, 7]]
    tables = [rng.uniform(0.05, 1.0, [card[i] for i in scope]) for scope in scopes]
    if zeros:
        tables[3][0] = 0.0
        tables[5][1, :2] = 0.0
    return ef.FactorGraph(card, list(zip(scopes, tables, strict=True)))


def rows_of(graph: ef.FactorGraph, count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    states = rng.integers(0, graph.card, (count, graph.num_vars))
    return np.where(rng.random(states.shape) < rng.random((count, 1)), states, -1)


def one_by_one(graph: ef.FactorGraph, states: np.ndarray) -> list[ef.Result]:
    seen = [StateNumbers({i: int(x) for i, x in enumerate(row) if x >= 0}) for row in states]
    return [ef.solve(graph.condition(e), "MAR", "exact") for e in seen]


def counts_by_brute_force(graph: ef.FactorGraph, states: np.ndarray, weights: np.ndarray) -> np.ndarray:
    every = np.indices(tuple(graph.card)).reshape(graph.num_vars, -1).T
    scores = np.exp(graph.log_score(every))
    total = np.zeros(graph.structure.num_entries)
    s = graph.structure
    for row, weight in zip(states, weights, strict=True):
        p = scores * ((row < 0) | (every == row)).all(axis=1)
        if p.sum() == 0:
            continue
        p *= weight / p.sum()
        for a in range(graph.num_factors):
            edges = slice(s.scope_ptr[a], s.scope_ptr[a + 1])
            np.add.at(total, s.table_ptr[a] + every[:, s.scope_vars[edges]] @ s.stride[edges], p)
    return total


@pytest.mark.parametrize("zeros", [False, True])
def test_rows_agree_with_conditioned_graphs(zeros: bool) -> None:
    graph = network(1, zeros)
    states = rows_of(graph, 37)
    rows = EvidenceRows(graph)
    p, log_z = rows.marginals(states)
    np.testing.assert_array_equal(rows.log_z(states), log_z)
    for b, expected in enumerate(one_by_one(graph, states)):
        if expected.status is ef.Status.ZERO_PROBABILITY:
            assert log_z[b] == -np.inf
            assert not p[b].any()
        else:
            assert log_z[b] == pytest.approx(expected.log_z, abs=1e-12)
            np.testing.assert_allclose(p[b], expected.marginals.values, atol=1e-13)
    some, _ = rows.marginals(states, [5, 0])
    ptr = graph.structure.state_ptr
    np.testing.assert_array_equal(some, np.hstack([p[:, ptr[5] : ptr[6]], p[:, ptr[0] : ptr[1]]]))


@pytest.mark.parametrize("zeros", [False, True])
def test_expected_factors_agree_with_brute_force(zeros: bool) -> None:
    graph = network(2, zeros)
    states = rows_of(graph, 21)
    weights = np.random.default_rng(3).uniform(0.0, 2.0, len(states))
    counts, log_z = EvidenceRows(graph).expected_factors(states, weights)
    np.testing.assert_allclose(counts, counts_by_brute_force(graph, states, weights), atol=1e-12)
    np.testing.assert_array_equal(log_z, EvidenceRows(graph).log_z(states))


def test_other_potentials_use_the_same_plan() -> None:
    graph, other = network(4), network(5)
    rows = EvidenceRows(graph).with_potentials(other.log_phi)
    states = rows_of(graph, 5)
    np.testing.assert_allclose(rows.log_z(states), EvidenceRows(other).log_z(states), atol=1e-12)


def test_evidence_of_the_graph_itself_holds_in_every_row() -> None:
    graph = network(6).condition({1: 2, 6: 0})
    states = rows_of(graph, 30)
    counts, log_z = EvidenceRows(graph).expected_factors(states)
    p, _ = EvidenceRows(graph).marginals(states)
    agrees = ((states[:, [1, 6]] < 0) | (states[:, [1, 6]] == [2, 0])).all(axis=1)
    np.testing.assert_array_equal(np.isfinite(log_z), agrees)
    ptr = graph.structure.state_ptr
    np.testing.assert_array_equal(p[:, ptr[1] + 2], agrees)
    for b, expected in zip(np.flatnonzero(agrees), one_by_one(graph, states[agrees]), strict=True):
        np.testing.assert_allclose(p[b], expected.marginals.values, atol=1e-13)
    np.testing.assert_allclose(counts.sum(), agrees.sum() * graph.num_factors)


def test_products_beyond_the_range_of_floating_point() -> None:
    """Test a class with 900 observed features: each state's score is near 1e-400, and only their ratio counts."""
    rng = np.random.default_rng(7)
    features = 900
    tables = rng.uniform(0.2, 0.5, (features, 3, 2))
    tables[:, :, 1] = 1.0 - tables[:, :, 0]
    tables[:, 2, 0] *= 1e-30  # one state of the class is very unlikely unless it is observed
    factors = [([0, 1 + i], table) for i, table in enumerate(tables)]
    graph = ef.FactorGraph([3] + [2] * features, [([0], [0.3, 0.5, 0.2]), *factors])
    states = np.zeros((3, 1 + features), np.int64)
    states[1, 0] = 2
    states[:2, 0] = [-1, 2]
    states[2, 1:450] = -1
    states[2, 0] = -1
    p, log_z = EvidenceRows(graph).marginals(states, [0])
    for b, expected in enumerate(one_by_one(graph, states)):
        assert log_z[b] == pytest.approx(expected.log_z, rel=1e-12)
        np.testing.assert_allclose(p[b], expected.marginals[0], atol=1e-12)


def test_kinds_of_factors_are_lowered() -> None:
    graph = ef.FactorGraph([2] * 6, [(range(5), ef.Parity()), ([0, 5], [[0.9, 0.1], [0.3, 0.7]])])
    states = rows_of(graph, 12)
    rows = EvidenceRows(graph)
    p, log_z = rows.marginals(states)
    for b, expected in enumerate(one_by_one(graph, states)):
        if expected.status is ef.Status.ZERO_PROBABILITY:
            assert log_z[b] == -np.inf
        else:
            np.testing.assert_allclose(p[b], expected.marginals.values, atol=1e-13)
    with pytest.raises(ModelError, match="by lower"):
        rows.expected_factors(states)


def test_a_model_without_any_assignment() -> None:
    graph = ef.FactorGraph([2, 2], [([0], [1.0, 0.0]), ([0, 1], [[0.0, 0.0], [1.0, 1.0]])])
    p, log_z = EvidenceRows(graph).marginals([[-1, -1], [1, 0]])
    assert (log_z == -np.inf).all()
    assert not p.any()


def test_wrong_arguments_are_refused() -> None:
    graph = network(1)
    rows = EvidenceRows(graph)
    with pytest.raises(ModelError, match=r"expected shape \[N, 9\]"):
        rows.log_z([[0, 1]])
    with pytest.raises(ModelError, match="row 0, column 3: expected a state from 0 to"):
        rows.log_z([[0, 1, 0, 7, 0, 0, 0, 0, 0]])
    with pytest.raises(ModelError, match="different variables"):
        rows.marginals(np.full((1, 9), -1), [1, 1])
    with pytest.raises(ModelError, match="one weight for each of 1 rows"):
        rows.expected_factors(np.full((1, 9), -1), [1.0, 2.0])
    with pytest.raises(SolveError, match="Raise memory_limit"):
        EvidenceRows(graph, memory_limit=1e-9)
