"""Elimination in plain NumPy, against brute force and against the kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_eliminate import check, random_model

from equifactor import FactorGraph, solve
from equifactor.base.clock import Clock
from equifactor.base.errors import SolveError
from equifactor.generators import ising_grid, random_graph
from equifactor.solvers.elimination import plain_elimination
from equifactor.solvers.elimination.eliminate import maximise, sum_out
from equifactor.solvers.elimination.plain_elimination import plain_best, plain_seconds, plain_sums
from equifactor.solvers.elimination.plan import plan
from equifactor.solvers.elimination.scope_sums import plan_scopes
from equifactor.testing import contract_graphs
from tests.factors.random_factors import random_mixture

GRAPHS = contract_graphs()


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question is answered without kernels, where that is possible."""
    monkeypatch.setenv("EQUIFACTOR_PLAIN", "1")


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


@pytest.mark.parametrize("seed", range(8))
def test_joint_distributions(monkeypatch: pytest.MonkeyPatch, seed: int):
    """Scopes in any order, with observed variables and variables of one state; inside of a factor or not."""
    rng = np.random.default_rng(seed)
    graph = random_graph(9, 12, arity=(1, 3), card=(1, 3), zeros=0.1, seed=seed).condition({int(rng.integers(9)): 0})
    scopes = [rng.permutation(9)[:size].tolist() for size in (1, 2, 3, 4)] + [graph.structure.scope(3).tolist()]
    found = {}
    for value in ("1", "0"):
        monkeypatch.setenv("EQUIFACTOR_PLAIN", value)
        steps = plan_scopes(graph, scopes, memory_limit=1.0)
        if steps is None:
            return
        try:
            found[value] = steps.run(Clock())
        except SolveError as error:
            found[value] = str(error)
    if isinstance(found["0"], str):
        assert found["1"] == found["0"]
        return
    for got, want in zip(found["1"], found["0"], strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, atol=1e-12)


def test_joint_distributions_stop_with_the_clock(plain: None):
    steps = plan_scopes(ising_grid(4, 4, seed=0), [[0, 15]], memory_limit=1.0)
    assert steps is not None
    assert steps.run(Clock(0.0)) is None


@pytest.mark.parametrize("task", ["MAR", "PR"])
def test_rows_of_evidence(monkeypatch: pytest.MonkeyPatch, task: str):
    """Few rows are answered one by one, with the same answers as along one plan."""
    graph = random_graph(10, 14, arity=(1, 3), card=(2, 3), zeros=0.2, seed=4)
    rows = [{0: 0}, {0: 1, 5: 0}, {}, {3: 1, 9: 0}]
    found = {}
    for value in ("1", "0"):
        monkeypatch.setenv("EQUIFACTOR_PLAIN", value)
        found[value] = solve(graph, task, evidence=rows)
    assert found["1"].statuses == found["0"].statuses
    np.testing.assert_allclose(found["1"].log_z, found["0"].log_z, rtol=1e-12)
    if task == "MAR":
        np.testing.assert_allclose(found["1"].marginals[2], found["0"].marginals[2], atol=1e-12)
