"""Graphs of a batch stop one by one: each gets the iterations and the answer that it gets alone."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from types import FunctionType

import numpy as np
import pytest

from equifactor import Clause, FactorGraph, Parity, Result, Status, solve
from equifactor.generators import ising_grid, potts_grid
from equifactor.solvers import Estimate
from equifactor.solving.solver import IterativeSolver

GRIDS = [ising_grid(4, 4, coupling_std=std, seed=n) for n, std in enumerate((0.2, 3.0, 0.5, 0.1, 1.0, 4.0, 0.3, 0.2))]
LARGER = [potts_grid(3, 3, coupling_std=std, seed=n) for n, std in enumerate((0.2, 3.0, 0.5, 0.1))]


def _checked(seed: int, strength: float) -> FactorGraph:
    """Return hard checks and clauses on ten bits, and a unary table for each bit."""
    rng = np.random.default_rng(seed)
    factors: list = [([i], [0.0, strength * rng.normal()]) for i in range(10)]
    for n in range(8):
        factors.append((rng.permutation(10)[:3].tolist(), Parity() if n % 2 else Clause()))
    return FactorGraph([2] * 10, factors, log=True)


CHECKED = [_checked(n, strength) for n, strength in enumerate((3.0, 0.3, 1.0, 2.0, 0.1, 3.0))]
MIXED = [*GRIDS[:2], *LARGER[1:3], *CHECKED, FactorGraph([2, 3]), GRIDS[5].condition({0: 1, 7: 0})]


def _assert_equal(batch: list[Result], alone: list[Result]) -> None:
    for got, want in zip(batch, alone, strict=True):
        assert (got.status, got.iterations, got.message) == (want.status, want.iterations, want.message)
        # The hidden vectors of networks are in single precision, and a batch adds their numbers in another order.
        assert got.stats.get("change", 0.0) == pytest.approx(want.stats.get("change", 0.0), rel=1e-2, abs=1e-7)
        if hasattr(want, "marginals"):
            np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=1e-6)
            assert hasattr(got, "log_z") == hasattr(want, "log_z")
            assert not hasattr(got, "log_z") or got.log_z == pytest.approx(want.log_z, rel=1e-6)
        if hasattr(want, "assignment"):
            np.testing.assert_array_equal(got.assignment, want.assignment)
            assert got.upper_bound == pytest.approx(want.upper_bound, rel=1e-5)


def _check(graphs: list[FactorGraph], task: str, solver: str) -> None:
    _assert_equal(solve(graphs, task, solver), [solve(graph, task, solver) for graph in graphs])


@pytest.mark.parametrize("task", ["MAR", "MAP"])
@pytest.mark.parametrize(
    "solver", ["bp", "bp(damping=0.5)", "bp(schedule=sequential)", "bp(schedule=random)", "bp(schedule=residual)"]
)
def test_members_get_what_they_get_alone(solver: str, task: str) -> None:
    _check(GRIDS, task, solver)
    _check(LARGER, task, solver)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["MAR", "MAP"])
@pytest.mark.parametrize("solver", ["bp", "bp(engine=torch, iterations=40)", "fe-nbp(iterations=20)"])
def test_members_of_any_kind_get_what_they_get_alone(solver: str, task: str) -> None:
    _check(MIXED, task, solver)


@pytest.mark.parametrize(
    "solver", ["fe-net(iterations=40)", "fe-net(iterations=40, tolerance=1e-2)", "trw", "meanfield"]
)
def test_other_solvers(solver: str) -> None:
    _check(GRIDS, "MAR", solver)


@pytest.mark.parametrize("solver", ["mplp", "srmp"])
def test_dual_ascent(solver: str) -> None:
    _check(GRIDS, "MAP", solver)


@pytest.mark.parametrize("solver", ["bpnn", "nebp", "fe-gnn", "fgnn", "ggnn"])
def test_networks_of_one_cardinality(solver: str) -> None:
    _check(GRIDS, "MAR", f"{solver}(untrained, iterations=40, tolerance=1e-5)")


# ---- the loop by itself -----------------------------------------------------------------------------------


@dataclass
class Counts:
    """The number of iterations that each graph has made, and the number that it needs."""

    made: np.ndarray
    needed: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Counter(IterativeSolver[Counts]):
    """A solver by which a graph of n variables settles after n iterations."""

    name = "counter"
    work: list = field(default_factory=list)  # the numbers of variables and of iterations of each call
    most: float = 1e9
    watch: FunctionType = lambda count: None  # is called with the number of iterations at every step

    def init(self, flat, task, context):
        return Counts(np.zeros(flat.num_graphs), np.array([g.num_vars for g in flat.graphs]))

    def step(self, state, count):
        self.watch(count)
        self.work.append(state.needed.sum() * count)
        state.made = state.made + count
        return (state.made < state.needed).astype(float)

    def take(self, state, graphs):
        return state.made[graphs]

    def put(self, state, graphs, part):
        state.made[graphs] = part

    def batch_size(self, context):
        return self.most

    def finish(self, flat, state, task, ending):
        rows = zip(ending.status, ending.iterations, state.made.tolist(), strict=True)
        return [Estimate(status=status, iterations=n, log_z=made) for status, n, made in rows]


SIZES = [
    FactorGraph([2] * n, [([i], [1.0, 2.0]) for i in range(n)])
    for n in (4, 190, 3, 3, 20, 5, 150, 3, 3, 4, 3, 8, 3, 300)
]


@pytest.mark.parametrize("most", [0.0, 500.0, np.inf])
def test_a_settled_graph_costs_nothing_more(most: float) -> None:
    together, alone = Counter(most=most), Counter()
    batch = solve(SIZES, "PR", together)
    for got, want in zip(batch, [solve(graph, "PR", alone) for graph in SIZES], strict=True):
        assert (got.status, got.iterations, got.log_z) == (want.status, want.iterations, want.log_z)
        assert got.log_z == got.iterations
    assert batch[-1].status is Status.ITERATION_LIMIT
    assert sum(together.work) < 1.5 * sum(alone.work)


def test_a_state_that_cannot_be_divided_goes_on_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counter, "take", IterativeSolver.take)
    assert {result.iterations for result in solve(SIZES[:5], "PR", Counter())} == {200}


def test_all_batches_get_a_share_of_the_time(driven_time) -> None:
    counter = Counter(most=0.0, watch=lambda count: driven_time.advance(0.003 * count))
    results = solve(SIZES, "PR", counter, time_limit=0.5)
    assert {result.status for result in results} == {Status.CONVERGED, Status.TIME_LIMIT}
    assert all(result.iterations > 0 for result in results)
    assert min(r.iterations for r in results if r.status is Status.TIME_LIMIT) > 3


def test_ctrl_c_stops_all_batches() -> None:
    made = []

    def press_ctrl_c(count: int) -> None:
        made.append(count)
        if sum(made) > 10:
            signal.raise_signal(signal.SIGINT)
            made.clear()

    results = solve(SIZES, "PR", Counter(most=0.0, watch=press_ctrl_c))
    assert results[0].status is Status.CONVERGED
    assert results[-1].status is Status.INTERRUPTED


def test_progress_counts_the_graphs_of_several_batches() -> None:
    seen: list = []
    solve(SIZES[:3], "PR", Counter(most=0.0), progress=lambda *said: seen.append(said[:2]))
    assert seen == [(1, 3), (2, 3), (3, 3)]
