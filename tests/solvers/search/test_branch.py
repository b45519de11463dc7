"""Branch and bound: optimal with a proof, bounds that hold on the way, deadlines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equifactor import FactorGraph, Status, solve
from equifactor.base.budget import Seconds
from equifactor.base.clock import Clock
from equifactor.generators import ising_grid, random_graph
from equifactor.graph import compile
from equifactor.solvers.duals.ascent import VariableAscent
from equifactor.solvers.elimination.impossibility import is_possible
from equifactor.solvers.elimination.shrink import shrink
from equifactor.solvers.search import branch as solver
from equifactor.solvers.search import branch_and_bound as branch
from equifactor.solvers.search.branch import prove
from equifactor.solvers.search.branch_and_bound import BranchAndBound
from equifactor.solving.solver import SolveContext
from equifactor.testing import contract_graphs


def dense_pairs(num_vars: int, seed: int, states: int = 2) -> FactorGraph:
    """Return a graph of all pairs with strong random tables: its local polytope bound is far from the optimum."""
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(num_vars) for j in range(i)]
    factors = [(list(pair), np.exp(2.0 * rng.normal(size=(states, states)))) for pair in pairs]
    return FactorGraph([states] * num_vars, factors)


def noisy_or(num_causes: int, num_effects: int, seed: int) -> FactorGraph:
    """Return observed effects of rare causes, each through a chain of deterministic ORs; most entries are zero."""
    rng = np.random.default_rng(seed)
    card = [2] * num_causes
    factors: list[tuple[list[int], np.ndarray]] = [([i], np.array([0.98, 0.02])) for i in range(num_causes)]
    join = np.zeros((2, 2, 2))
    for a, b in np.ndindex(2, 2):
        join[a, b, a | b] = 1.0
    for _ in range(num_effects):
        chain = -1
        for i in rng.choice(num_causes, 5, replace=False).tolist():
            strength = rng.uniform(0.3, 0.9)
            card.append(2)
            inhibited = len(card) - 1
            factors.append(([i, inhibited], np.array([[1.0, 0.0], [1.0 - strength, strength]])))
            if chain >= 0:
                card.append(2)
                factors.append(([chain, inhibited, len(card) - 1], join))
            chain = len(card) - 1
        factors.append(([chain], np.array([0.0, 1.0])))
    return FactorGraph(card, factors)


def search_of(graph: FactorGraph, sweeps: int = 20) -> BranchAndBound:
    ascent = VariableAscent(compile(graph))
    for _ in range(sweeps):
        ascent.sweep()
    start = np.zeros(graph.num_vars, np.int64)
    return BranchAndBound(ascent, start, graph.log_score(start), 1e-7)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("states", [2, 3])
def test_dense_pairs_are_proven(seed: int, states: int) -> None:
    graph = dense_pairs(12 if states == 2 else 9, seed, states)
    got, want = prove(graph, SolveContext()), solve(graph, "MAP", "exact")
    assert got.status is Status.OPTIMAL
    assert got.lower_bound == pytest.approx(want.log_score)
    assert got.upper_bound == pytest.approx(want.log_score)


@pytest.mark.parametrize("seed", range(3))
def test_noisy_or_networks_are_proven(seed: int) -> None:
    graph = noisy_or(25, 20, seed)
    got, want = prove(graph, SolveContext()), solve(graph, "MAP", "exact")
    assert got.status is Status.OPTIMAL
    assert got.lower_bound == pytest.approx(want.log_score)


@pytest.mark.parametrize("zeros", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(10))
def test_nothing_eliminated_before(seed: int, zeros: float) -> None:
    graph = random_graph(9, 16, arity=(1, 4), card=(2, 3), zeros=zeros, seed=seed)
    got, want = prove(graph, SolveContext(), sweeps=1, entries=1), solve(graph, "MAP", "brute")
    if want.status is Status.ZERO_PROBABILITY:
        assert got.status is Status.ZERO_PROBABILITY
    else:
        assert got.status is Status.OPTIMAL
        assert got.assignment is not None
        assert graph.log_score(got.assignment) == pytest.approx(want.log_score)


def test_bound_holds_at_every_moment() -> None:
    graph = dense_pairs(14, 7)
    best = solve(graph, "MAP", "exact").log_score
    search = search_of(graph)
    bounds = [search.bound]
    while not search.finished:
        search.work(0.0)
        search._dive()
        bounds.append(search.bound)
        assert search.bound >= best - 1e-9
        assert search.score <= best + 1e-9
    assert bounds[0] > best + 1.0
    assert bounds == sorted(bounds, reverse=True)
    assert graph.log_score(search.best) == pytest.approx(best)
    assert search.nodes > len(bounds)


def test_too_many_open_nodes_make_it_search_depth_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch, "_MOST_OPEN", 3)
    monkeypatch.setattr(branch, "_BACKTRACKS", (1, 1))
    graph = dense_pairs(14, 8)
    search = search_of(graph)
    search.work(60.0)
    assert search.finished
    assert graph.log_score(search.best) == pytest.approx(solve(graph, "MAP", "exact").log_score)


def test_a_short_trail_only_ends_dives_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch, "_TRAIL", 1)
    graph = dense_pairs(12, 9)
    search = search_of(graph)
    search.work(60.0)
    assert search.finished
    assert graph.log_score(search.best) == pytest.approx(solve(graph, "MAP", "exact").log_score)


def test_deadline_returns_the_best_so_far(driven_time) -> None:
    driven_time.tick = 0.01
    graph = dense_pairs(60, 1)
    clock = Clock(0.5)
    got = prove(graph, SolveContext(clock=clock))
    assert clock.seconds < 1.0  # the solver checks the clock at most fifty times more
    assert got.status is Status.TIME_LIMIT
    assert got.assignment is not None
    assert got.upper_bound > got.lower_bound == graph.log_score(got.assignment)


def test_interrupt_returns_the_best_so_far() -> None:
    graph = dense_pairs(60, 1)
    clock = Clock()

    def press(done: int, total: int | None, note: str) -> None:
        clock.interrupted = True

    got = prove(graph, SolveContext(clock=clock, progress=press))
    assert got.status is Status.INTERRUPTED
    assert got.assignment is not None
    assert got.iterations > 0


def test_offer_takes_better_assignments_only() -> None:
    graph = dense_pairs(12, 2)
    best = solve(graph, "MAP", "exact")
    search = search_of(graph)
    worse = np.zeros(graph.num_vars, np.int64)
    assert search.offer(best.assignment, best.log_score)
    assert not search.offer(worse, graph.log_score(worse))
    search.work(60.0)
    assert np.array_equal(search.best, best.assignment)


@pytest.mark.slow
@pytest.mark.parametrize(
    "graph",
    [dense_pairs(22, 3), noisy_or(40, 30, 0), noisy_or(60, 40, 0), ising_grid(12, 12, seed=2)],
    ids=["dense", "noisy or", "larger noisy or", "grid"],
)
def test_auto_proves_where_exact_does_not_fit(graph: FactorGraph) -> None:
    got = solve(graph, "MAP", "auto(memory_limit=0.0001, seconds=1000)")  # The search ends when the optimum is proven.
    want = prove(graph, SolveContext(clock=Clock(5.0)))
    assert got.status is Status.OPTIMAL
    assert got.log_score >= want.lower_bound - 1e-6
    assert want.upper_bound >= got.log_score - 1e-6


@pytest.mark.parametrize("name", contract_graphs())
def test_contract_graphs(name: str) -> None:
    graph = contract_graphs()[name]
    got, want = prove(graph, SolveContext()), solve(graph, "MAP", "brute")
    assert got.status is (Status.ZERO_PROBABILITY if want.status is Status.ZERO_PROBABILITY else Status.OPTIMAL)
    if hasattr(got, "assignment"):
        assert graph.log_score(got.assignment) == pytest.approx(want.log_score, rel=1e-9, abs=1e-9)


def test_bursts_are_short_on_large_graphs() -> None:
    """Every node visits all factors once: a dive of thousands of nodes would miss deadlines by seconds."""
    search = search_of(ising_grid(120, 120, seed=0))
    search.work(0.01)  # one dive
    assert 0 < search.nodes < 500


def test_short_turns_end_with_the_same_optimum() -> None:
    graph = dense_pairs(12, 0)
    search = search_of(graph)
    while not search.finished:
        search.work(1e-4)
    assert search.score == pytest.approx(solve(graph, "MAP", "brute").log_score, abs=1e-6)


def test_nothing_is_built_after_the_deadline(driven_time, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*args: Any) -> Any:
        driven_time.seconds += 2.0
        return shrink(*args)

    monkeypatch.setattr(solver, "shrink", slow)
    monkeypatch.setattr(solver, "_branching", None)
    found = prove(ising_grid(6, 6, seed=0), SolveContext(clock=Clock(1.0)))
    assert found.status is Status.TIME_LIMIT
    assert found.assignment is None


def test_no_search_begins_after_the_deadline(driven_time, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its start goes over all tables; the assignment and the bound of the sweeps so far are an answer."""
    driven_time.tick = 0.05
    monkeypatch.setattr(solver.Branching, "begin", None)
    graph = dense_pairs(12, 0)
    found = prove(graph, SolveContext(clock=Clock(1.0)))
    assert found.status is Status.TIME_LIMIT
    assert found.lower_bound == pytest.approx(graph.log_score(found.assignment))
    assert found.lower_bound <= solve(graph, "MAP", "brute").log_score <= found.upper_bound < np.inf


def test_cheap_variables_are_not_eliminated_without_time(driven_time, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ising_grid(6, 6, seed=0)
    monkeypatch.setattr(solver, "shrink", None)
    monkeypatch.setattr(Seconds, "SHRINK_EDGE", 0.1)
    assert prove(graph, SolveContext(clock=Clock(1.0))).status is Status.TIME_LIMIT
    assert is_possible(graph, Clock(1.0)) is None
    assert is_possible(graph) is True  # Without a limit the proof takes as long as it needs.
