"""Marginals of `auto` where exact inference does not fit: BP where it settles, the network where it does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from equifactor import metrics, solve
from equifactor.clock import Clock
from equifactor.generators import ising_grid
from equifactor.result import Estimate, Status
from equifactor.solvers.auto import sum_portfolio

WEAK = ising_grid(6, 6, coupling_std=0.3, seed=1)
STRONG = ising_grid(6, 6, coupling_std=5.0, field_std=0.5, seed=3)  # frustrated: BP runs in circles
AUTO = "auto(memory_limit=0)"  # nothing fits exact


def test_bp_where_it_settles() -> None:
    result = solve(WEAK, "MAR", AUTO)
    assert result.status is Status.CONVERGED
    assert result.stats["chosen"].startswith("bp(")


def test_the_network_where_bp_does_not_settle() -> None:
    exact = solve(STRONG, "MAR", "exact").marginals
    result, bp = solve(STRONG, "MAR", AUTO), solve(STRONG, "MAR", sum_portfolio.TRIES[0])
    assert bp.status is Status.ITERATION_LIMIT
    assert result.stats["chosen"] == "fe-net"
    assert "auto chose fe-net" in result.message
    assert "no run of bp settled" in result.message
    assert metrics.kl(exact, result.marginals) < 0.5 * metrics.kl(exact, bp.marginals)


@pytest.mark.parametrize("task", ["MAR", "PR"])
def test_single_precision(task: str) -> None:
    result = solve(WEAK, task, AUTO, dtype="float32")  # residual schedules need double precision
    assert result.status is Status.CONVERGED
    assert result.log_z == pytest.approx(solve(WEAK, task, AUTO).log_z, rel=1e-4)


def test_a_batch_takes_each_graph_by_itself() -> None:
    results = solve([WEAK, STRONG, WEAK], "MAR", AUTO)
    chosen = [r.stats["chosen"].split("(")[0] for r in results]
    assert chosen == ["bp", "fe-net", "bp"]
    alone = solve(STRONG, "MAR", "fe-net").marginals
    np.testing.assert_allclose(results[1].marginals.values, alone.values, rtol=0, atol=1e-9)


def test_the_network_where_beliefs_of_bp_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.solvers.messages.bp import BeliefPropagation

    run = BeliefPropagation.run

    def vanishing(self, graphs, task, settings):
        return [replace(e, stats={**e.stats, "vanished": 3}) for e in run(self, graphs, task, settings)]

    monkeypatch.setattr(BeliefPropagation, "run", vanishing)
    assert solve(WEAK, "MAR", AUTO).stats["chosen"] == "fe-net"


def test_ln_z_stays_that_of_bp() -> None:
    assert solve(STRONG, "MAR", AUTO).log_z == solve(STRONG, "PR", AUTO).log_z
    result = solve(STRONG, "PR", AUTO)
    assert result.stats["chosen"].startswith("bp(")
    assert result.lower_bound <= result.upper_bound


@pytest.mark.parametrize("late", [Status.TIME_LIMIT, Status.INTERRUPTED])
def test_an_answer_cut_short_is_not_preferred_but_told(late: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.solvers.learned.learned_solver import NeuralSolver

    def cut(self, graphs, task, run):
        monkeypatch.setattr(Clock, "status", property(lambda _: late))
        return [Estimate(status=late)] * len(graphs)

    monkeypatch.setattr(NeuralSolver, "run", cut)
    result = solve(STRONG, "MAR", AUTO)
    assert result.stats["chosen"].startswith("bp(")
    assert result.marginals is not None
    assert result.status is late


def test_too_large_for_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sum_portfolio, "_MEMORY", 1000)
    assert solve(STRONG, "MAR", AUTO).stats["chosen"].startswith("bp(")


def test_torch_is_not_loaded_when_little_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.solvers.learned.learned_solver import NeuralSolver

    monkeypatch.setattr(NeuralSolver, "run", lambda *_: pytest.fail("the network ran"))
    monkeypatch.setattr(sum_portfolio, "sys", type("Modules", (), {"modules": {}}))
    monkeypatch.setattr(Clock, "left", property(lambda _: 2.0))
    assert solve(STRONG, "MAR", AUTO, time_limit=100).stats["chosen"].startswith("bp(")
