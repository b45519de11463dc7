"""Passes over the clusters, against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equifactor import FactorGraph, Status, Task, solve
from equifactor.base.clock import Clock
from equifactor.base.status import PLAIN_TASKS
from equifactor.generators import ising_grid, random_graph
from equifactor.solvers.elimination import eliminate as elimination
from equifactor.solvers.elimination.eliminate import maximise, sum_out
from equifactor.solvers.elimination.plan import plan


def random_model(seed: int, magnitude: float, zeros: float) -> FactorGraph:
    """Return at most 8 variables of 1 to 4 states, factors of arity 0 to 4, logs of any size."""
    rng = np.random.default_rng(seed)
    card = rng.integers(1, 5, int(rng.integers(1, 9))).tolist()
    factors = []
    for _ in range(int(rng.integers(0, 14))):
        scope = rng.permutation(len(card))[: int(rng.integers(0, 5))].tolist()
        table = magnitude * rng.normal(size=[card[i] for i in scope])
        factors.append((scope, np.where(rng.random(table.shape) < zeros, -np.inf, table)))
    graph = FactorGraph(card, factors, log=True)
    if seed % 3 == 0:
        graph = graph.condition({0: int(rng.integers(card[0]))})
    return graph


def check(graph: FactorGraph, solver: str = "exact") -> None:
    """Compare all answers of a graph with enumeration."""
    for task in PLAIN_TASKS:
        got, want = solve(graph, task, solver), solve(graph, task, "brute")
        assert got.status is want.status
        if want.status is Status.ZERO_PROBABILITY:
            continue
        if task is Task.MAP:
            assert got.log_score == pytest.approx(want.log_score, rel=1e-12, abs=1e-9)
            continue
        assert got.log_z == pytest.approx(want.log_z, rel=1e-12, abs=1e-9)
        if task is Task.MAR:
            np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=1e-9)


@given(
    seed=st.integers(0, 10**9),
    magnitude=st.sampled_from([1.0, 30.0, 300.0, 5000.0]),
    zeros=st.sampled_from([0.0, 0.2, 0.5]),
)
def test_any_model_against_brute_force(seed: int, magnitude: float, zeros: float):
    check(random_model(seed, magnitude, zeros))


def test_a_message_that_leaves_the_range_is_computed_in_logs():
    """The upward pass meets e^-2000 before a later factor raises it again; the linear domain would lose it."""
    steps = np.array([[0.0, -400.0], [-400.0, -2000.0]])
    last = np.array([0.0, 5000.0])
    chain = [([i, i + 1], steps) for i in range(9)]
    graph = FactorGraph([2] * 10, [*chain, *(([i], last) for i in range(10))], log=True)
    want = solve(graph, "MAR", "brute")
    got = solve(graph, "MAR", "exact")
    assert got.log_z == pytest.approx(want.log_z, rel=1e-13)
    np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=1e-12)


def test_a_star_of_many_small_probabilities_does_not_underflow():
    leaves = [([0, i], np.array([[0.1, 0.2], [0.3, 0.1]])) for i in range(1, 3001)]
    result = solve(FactorGraph([2] * 3001, leaves), "MAR", "exact")
    assert result.log_z == pytest.approx(3000 * np.log(0.4), rel=1e-12)
    odds = 3000 * (np.log(0.3) - np.log(0.4))
    assert result.marginals[0][0] == pytest.approx(np.exp(odds), abs=1e-12)


@pytest.mark.parametrize("budget", [1, 100, 10_000])
def test_passes_may_be_cut_anywhere(budget: int, monkeypatch: pytest.MonkeyPatch):
    graph = random_graph(14, 30, arity=(1, 3), card=(2, 4), seed=5)
    whole = plan(graph)
    log_phi = whole.reduced.graph.log_phi
    sums, best = sum_out(whole.program, log_phi, Clock()), maximise(whole.program, log_phi, Clock())
    monkeypatch.setattr(elimination, "_BUDGET", budget)
    cut_sums, cut_best = sum_out(whole.program, log_phi, Clock()), maximise(whole.program, log_phi, Clock())
    assert sums is not None
    assert cut_sums is not None
    assert sums.log_z == cut_sums.log_z
    assert np.array_equal(sums.p, cut_sums.p)
    assert best.score == cut_best.score
    assert np.array_equal(best.states, cut_best.states)


def test_messages_that_are_overwritten_give_the_same_sum():
    graph = ising_grid(13, 13, seed=3)
    steps = plan(graph)
    log_phi = steps.reduced.graph.log_phi
    kept, reused = steps.program.starts(reuse=False)[1], steps.program.starts(reuse=True)[1]
    assert reused < kept
    both = sum_out(steps.program, log_phi, Clock()), sum_out(steps.program, log_phi, Clock(), marginals=False)
    assert both[0].log_z == both[1].log_z
    assert both[1].p is None


def test_factors_of_one_scope_and_of_scopes_within_are_merged():
    pair, single = np.full((2, 2), 2.0), np.full(2, 3.0)
    graph = FactorGraph([2, 2], [([0, 1], pair), ([1, 0], pair), ([0], single), ([1], single), ([0], single)])
    steps = plan(graph)
    assert steps.program.num_groups <= 2
    assert solve(graph, "PR", "exact").log_z == pytest.approx(np.log(4 * 4 * 27))


def test_an_expired_clock_stops_the_work():
    graph = ising_grid(4, 4)
    steps = plan(graph)
    assert sum_out(steps.program, graph.log_phi, Clock(0.0)) is None
    assert maximise(steps.program, graph.log_phi, Clock(0.0)) is None
