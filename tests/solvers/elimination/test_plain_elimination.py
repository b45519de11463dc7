"""Elimination in plain NumPy, against brute force and against the kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_eliminate import random_model

from equifactor import FactorGraph, Status, Task, solve
from equifactor.base.clock import Clock
from equifactor.generators import ising_grid, random_graph
from equifactor.solvers.elimination import plain_elimination
from equifactor.solvers.elimination.eliminate import maximise, sum_out
from equifactor.solvers.elimination.plain_elimination import plain_best, plain_seconds, plain_sums
from equifactor.solvers.elimination.plan import plan
from equifactor.testing import contract_graphs
from tests.factors.random_factors import random_mixture

GRAPHS = contract_graphs()


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question is answered without kernels, where that is possible."""
    monkeypatch.setenv("EQUIFACTOR_PLAIN", "1")


def check(graph: FactorGraph, solver: str = "exact") -> None:
    """Compare all answers of a graph with enumeration."""
    for task in Task:
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


@pytest.mark.parametrize("name", GRAPHS)
def test_contract_graphs(plain: None, name: str):
    check(GRAPHS[name])


@given(
    seed=st.integers(0, 10**9),
    magnitude=st.sampled_from([1.0, 30.0, 300.0, 5000.0, 1e300]),
    zeros=st.sampled_from([0.0, 0.2, 0.5]),
)
def test_any_model(seed: int, magnitude: float, zeros: float):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUIFACTOR_PLAIN", "1")
        check(random_model(seed, magnitude, zeros))


@pytest.mark.parametrize("seed", range(6))
def test_structured_factors(plain: None, seed: int):
    check(random_mixture(np.random.default_rng(seed)))


def test_a_batch_is_one_graph_after_another(plain: None):
    graphs = [ising_grid(4, 4, seed=seed) for seed in range(3)]
    same = [graphs[0].with_potentials(g.log_phi, log=True) for g in graphs]
    for task in ("MAR", "PR"):
        for got, graph in zip(solve(same, task, "exact"), graphs, strict=True):
            assert got.log_z == pytest.approx(solve(graph, "PR", "brute").log_z, abs=1e-10)


def compare(graph: FactorGraph) -> None:
    """Compare all answers along the same order with those of the kernels."""
    steps, clock = plan(graph), Clock()
    reduced = steps.reduced.graph
    model = reduced.structure, steps.found, reduced.log_phi
    want, got = sum_out(steps.program, reduced.log_phi, clock), plain_sums(*model, True, clock)
    assert got is not None
    assert got.log_z == pytest.approx(want.log_z, rel=1e-13)
    assert plain_sums(*model, False, clock).log_z == pytest.approx(want.log_z, rel=1e-13)
    np.testing.assert_allclose(got.p, want.p, rtol=1e-10, atol=1e-300)
    best = plain_best(*model, clock)
    assert best.score == pytest.approx(maximise(steps.program, reduced.log_phi, clock).score, rel=1e-13)
    assert reduced.log_score(best.states) == pytest.approx(best.score, rel=1e-12)


@pytest.mark.parametrize(("block", "kept"), [(2**16, 2**21), (2**16, 0), (32, 2**21), (32, 200), (1, 0)])
def test_clusters_in_blocks(monkeypatch: pytest.MonkeyPatch, block: int, kept: int):
    monkeypatch.setattr(plain_elimination, "_BLOCK", block)
    monkeypatch.setattr(plain_elimination, "_KEPT", kept)
    compare(ising_grid(6, 6, seed=1))
    compare(random_graph(14, 20, arity=(1, 3), card=(1, 4), zeros=0.1, seed=2))
    compare(random_graph(12, 9, arity=(1, 3), card=(2, 5), seed=3))


def test_small_probabilities_keep_their_digits():
    wide = FactorGraph([2, 2, 2], [([0, 1], [[0.0, -300.0], [-200.0, 0.0]]), ([1, 2], [[0, -250], [1, 2]])], log=True)
    compare(wide)
    compare(FactorGraph([3], [([0], [0.0, -700.0, -1e5])], log=True))


def test_no_assignment_is_possible():
    never = FactorGraph([2, 2, 2], [([0, 1], np.eye(2)), ([1, 2], np.eye(2)), ([0, 2], 1 - np.eye(2))])
    steps = plan(never)
    model = steps.reduced.graph.structure, steps.found, steps.reduced.graph.log_phi
    assert plain_sums(*model, True, Clock()) == (-np.inf, None)
    assert plain_best(*model, Clock()).score == -np.inf


def test_a_stopped_clock_stops_the_work():
    graph = ising_grid(8, 8, seed=0)
    order = plan(graph).found
    stopped = Clock(0.0)
    assert plain_sums(graph.structure, order, graph.log_phi, True, stopped) is None
    assert plain_sums(graph.structure, order, graph.log_phi, False, stopped) is None
    assert plain_best(graph.structure, order, graph.log_phi, stopped) is None


def test_the_clock_is_checked_on_the_way_down(driven_time):
    graph = ising_grid(9, 9, seed=0)
    order = plan(graph).found
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_elimination, "_KEPT", 0)
        patch.setattr(plain_elimination, "_CHECKED", 1)
        driven_time.tick = 0.01
        assert plain_sums(graph.structure, order, graph.log_phi, True, Clock(1e6)) is not None
        assert plain_sums(graph.structure, order, graph.log_phi, True, Clock(1.2)) is None


def test_a_variable_with_many_states_and_many_one_state_neighbours():
    card = [70000, *[1] * 80]
    values = np.random.default_rng(0).normal(size=card[0])
    graph = FactorGraph(card, [(range(81), values)], log=True)
    order = plan(ising_grid(2, 2)).found._replace(
        variables=np.arange(81), sep_ptr=np.append(0, np.cumsum(np.arange(80, -1, -1))),
        separators=np.concatenate([np.arange(80, n, -1) for n in range(81)]), parent=np.append(np.arange(1, 81), -1),
    )  # fmt: skip
    got = plain_sums(graph.structure, order, graph.log_phi, True, Clock())
    assert got.log_z == pytest.approx(np.log(np.exp(values).sum()))
    np.testing.assert_allclose(got.p[:70000], np.exp(values - got.log_z))
    assert plain_best(graph.structure, order, graph.log_phi, Clock()).states[0] == values.argmax()


def test_the_cost_grows_with_entries_and_clusters():
    assert plain_seconds(0.0, 0, True) == 0.0
    assert plain_seconds(1e6, 100, False) < plain_seconds(1e6, 100, True) < plain_seconds(1e7, 200, True) < 1.0
