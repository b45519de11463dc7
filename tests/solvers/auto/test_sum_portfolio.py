"""The first answers of `auto` for marginals if exact does not fit: BP if it settles, otherwise the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from equifactor import FactorGraph, Task, metrics, solve
from equifactor.base.clock import Clock
from equifactor.base.status import Status
from equifactor.generators import ising_grid
from equifactor.solvers.auto import sum_portfolio
from equifactor.solving.estimate import Estimate
from equifactor.solving.solver import SolveContext, Solver

WEAK = ising_grid(6, 6, coupling_std=0.3, seed=1)
STRONG = ising_grid(6, 6, coupling_std=5.0, field_std=0.5, seed=3)  # frustrated, so that BP oscillates


def _quick(
    graphs: Sequence[FactorGraph],
    task: str = "MAR",
    time_limit: float | None = None,
    dtype: Literal["float32", "float64"] = "float64",
) -> list[tuple[Estimate, Solver]]:
    return sum_portfolio.estimates(graphs, Task(task), SolveContext(clock=Clock(time_limit), dtype=dtype))


def test_bp_where_it_settles() -> None:
    [(estimate, chosen)] = _quick([WEAK])
    assert estimate.status is Status.CONVERGED
    assert chosen.name == "bp"


def test_the_network_where_bp_does_not_settle() -> None:
    exact = solve(STRONG, "MAR", "exact").marginals
    [(estimate, chosen)], bp = _quick([STRONG]), solve(STRONG, "MAR", sum_portfolio.bp_tries()[0])
    assert bp.status is Status.ITERATION_LIMIT
    assert chosen.name == "fe-net"
    assert metrics.kl(exact, estimate.marginals) < 0.5 * metrics.kl(exact, bp.marginals)


@pytest.mark.parametrize("task", ["MAR", "PR"])
def test_single_precision(task: str) -> None:
    [(estimate, _)] = _quick([WEAK], task, dtype="float32")  # residual schedules need double precision
    assert estimate.status is Status.CONVERGED
    assert estimate.log_z == pytest.approx(_quick([WEAK], task)[0][0].log_z, rel=1e-4)


def test_a_batch_takes_each_graph_by_itself() -> None:
    found = _quick([WEAK, STRONG, WEAK])
    assert [chosen.name for _, chosen in found] == ["bp", "fe-net", "bp"]
    alone = solve(STRONG, "MAR", "fe-net").marginals
    np.testing.assert_allclose(found[1][0].marginals.values, alone.values, rtol=0, atol=1e-9)


def test_the_network_where_beliefs_of_bp_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.solvers.messages.bp import BeliefPropagation

    run = BeliefPropagation.run

    def vanishing(self, graphs, task, settings):
        return [replace(e, stats={**e.stats, "vanished": 3}) for e in run(self, graphs, task, settings)]

    monkeypatch.setattr(BeliefPropagation, "run", vanishing)
    assert _quick([WEAK])[0][1].name == "fe-net"


def test_ln_z_stays_that_of_bp() -> None:
    [(marginals, _)], [(log_z, chosen)] = _quick([STRONG]), _quick([STRONG], "PR")
    assert marginals.log_z == log_z.log_z
    assert chosen.name == "bp"


@pytest.mark.parametrize("late", [Status.TIME_LIMIT, Status.INTERRUPTED])
def test_an_answer_cut_short_is_not_preferred_but_told(late: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.solvers.learned.learned_solver import NeuralSolver

    def cut(self, graphs, task, run):
        monkeypatch.setattr(Clock, "status", property(lambda _: late))
        return [Estimate(status=late)] * len(graphs)

    monkeypatch.setattr(NeuralSolver, "run", cut)
    [(estimate, chosen)] = _quick([STRONG])
    assert chosen.name == "bp"
    assert estimate.marginals is not None
    assert estimate.status is late


def test_too_large_for_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sum_portfolio, "_MEMORY", 1000)
    assert _quick([STRONG])[0][1].name == "bp"


def test_the_network_does_not_run_when_little_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.solvers.learned.learned_solver import NeuralSolver

    monkeypatch.setattr(NeuralSolver, "run", lambda *_: pytest.fail("the network ran"))
    monkeypatch.setattr(Clock, "left", property(lambda _: 1e-4))
    assert _quick([STRONG], time_limit=100)[0][1].name == "bp"
