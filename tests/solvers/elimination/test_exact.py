"""The solver `exact`: limits, batches, statuses."""

import numpy as np
import pytest

from equifactor import FactorGraph, Status, Task, solve
from equifactor.base.status import PLAIN_TASKS
from equifactor.generators import ising_grid, random_graph
from equifactor.solvers.elimination.exact import Exact
from equifactor.solving.solver import SolveContext


def test_a_model_over_the_memory_limit_is_refused_with_what_it_needs():
    result = solve(ising_grid(20, 20), "MAR", "exact(memory_limit=0.01)")
    assert result.status is Status.TOO_LARGE
    assert "Raise memory_limit" in result.message
    assert "width" in result.message
    assert "more memory than the limit of 10.2 MiB" in result.message  # a lower bound below the limit decides nothing
    finished = solve(ising_grid(12, 12), "MAR", "exact(memory_limit=0.0001)").message
    assert "Raise memory_limit" in finished


def test_a_large_loopy_model_is_refused_before_it_is_run(no_elimination):
    assert solve(ising_grid(70, 70), "MAR", "exact").status is Status.TOO_LARGE


def test_a_run_that_cannot_end_in_time_is_not_begun(no_elimination):
    result = solve(random_graph(40, 200, arity=2, card=3, seed=1), "MAR", "exact(memory_limit=1e9)", time_limit=1.0)
    assert result.status is Status.TIME_LIMIT


@pytest.fixture
def no_elimination(monkeypatch):
    """Fail when an elimination begins."""
    monkeypatch.setattr("equifactor.solvers.elimination.exact.sum_out", lambda *_, **__: pytest.fail("it ran"))


def test_the_deadline_holds_in_the_middle_of_a_run(driven_time):
    driven_time.tick = 0.1
    result = solve(ising_grid(22, 22), "MAR", "exact(memory_limit=8)", time_limit=1.5)
    assert result.status is Status.TIME_LIMIT
    assert result.seconds < 1.5 + 10 * driven_time.tick  # the solver checks the clock a few times more, and stops


def test_tasks_of_small_memory_are_accepted_where_marginals_are_not():
    graph = ising_grid(16, 16)
    solver = Exact(memory_limit=0.01)
    assert solve(graph, "MAR", solver).status is Status.TOO_LARGE
    assert solve(graph, "PR", Exact(memory_limit=0.02)).status is Status.EXACT


def test_a_mixture_of_structures_is_answered_in_order():
    grids = ising_grid(3, 3, count=4, seed=1)
    others = [random_graph(6, 8, seed=s) for s in range(2)]
    graphs = [*grids[:2], others[0], *grids[2:], others[1]]
    for task in PLAIN_TASKS:
        for got, graph in zip(solve(graphs, task, "exact"), graphs, strict=True):
            want = solve(graph, task, "brute")
            if task is Task.MAP:
                assert got.log_score == pytest.approx(want.log_score)
            else:
                assert got.log_z == pytest.approx(want.log_z, abs=1e-9)
            if task is Task.MAR:
                np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=1e-9)


def test_a_batch_reports_graphs_without_a_possible_assignment():
    base = FactorGraph([2, 2], [([0, 1], np.ones((2, 2))), ([0, 1], np.ones((2, 2)))])
    odd, even = np.array([0.0, 1, 1, 0]), np.array([1.0, 0, 0, 1])
    graphs = [base.with_potentials(np.r_[odd, odd]), base.with_potentials(np.r_[odd, even])]
    assert [r.status for r in solve(graphs, "MAR", "exact")] == [Status.EXACT, Status.ZERO_PROBABILITY]
    assert [r.status for r in solve(graphs, "MAP", "exact")] == [Status.OPTIMAL, Status.ZERO_PROBABILITY]


def test_a_plan_can_be_looked_at_and_run():
    graph, solver, run = ising_grid(4, 4), Exact(), SolveContext()
    steps = solver.plan(graph, Task.PR, run)
    assert steps.fits(1.0)
    estimate = solver.run_plan(graph, steps, Task.PR, run)
    assert estimate.log_z == pytest.approx(solve(graph, "PR", "brute").log_z)
    assert estimate.marginals is None


def test_ln_z_of_ising_grids_by_transfer_matrix():
    graph = ising_grid(9, 9, seed=8)
    assert solve(graph, "PR", "exact").log_z == pytest.approx(transfer_matrix(graph, 9, 9), abs=1e-9)


def transfer_matrix(graph: FactorGraph, rows: int, cols: int) -> float:
    """Return ln Z, computed row by row over all states of a row."""
    states = (np.arange(2**cols)[:, None] >> np.arange(cols)) & 1
    tables = {tuple(graph.structure.scope(a).tolist()): graph.log_table(a) for a in range(graph.num_factors)}
    log_weight = np.zeros(2**cols)
    for r in range(rows):
        inside = np.zeros(2**cols)
        for c in range(cols):
            i = r * cols + c
            inside += tables[(i,)][states[:, c]]
            if c + 1 < cols:
                inside += tables[(i, i + 1)][states[:, c], states[:, c + 1]]
        if r:
            between = np.zeros((2**cols, 2**cols))
            for c in range(cols):
                i = (r - 1) * cols + c
                between += tables[(i, i + cols)][states[:, c][:, None], states[:, c][None, :]]
            between += log_weight[:, None]
            top = between.max(axis=0)
            log_weight = top + np.log(np.exp(between - top).sum(axis=0))
        log_weight = log_weight + inside
    return float(np.logaddexp.reduce(log_weight))
