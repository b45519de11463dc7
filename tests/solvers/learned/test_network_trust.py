"""How far the marginals of a network may leave those of BP: solvers of known answers in place of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from equifactor import FactorGraph, Task
from equifactor.base.clock import Clock
from equifactor.base.status import Status
from equifactor.graph.marginals import Marginals
from equifactor.solvers.learned.network_trust import within_trust
from equifactor.solving.estimate import Estimate
from equifactor.solving.solver import SolveContext

GRAPH = FactorGraph([2], [([0], [1.0, 1.0])])


def answer(p: float, status: Status = Status.CONVERGED, log_z: float = 0.0) -> Estimate:
    return Estimate(status=status, marginals=Marginals(np.array([p, 1 - p]), np.array([0, 2])), log_z=log_z)


@dataclass(frozen=True)
class Known:
    """A solver with one answer for each damping."""

    answers: tuple[tuple[float, Estimate], ...]
    damping: float = 0.5
    iterations: int = 200

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        return [dict(self.answers)[self.damping] for _ in graphs]


def judged(own: Estimate, bp: Any, loops: Any) -> Estimate:
    (found,) = within_trust([own], bp, loops, [GRAPH], Task.MAR, SolveContext(clock=Clock(None)), 16)
    return found


def first(estimate: Estimate) -> float:
    assert estimate.marginals is not None
    return float(estimate.marginals.values[0])


def test_a_network_that_moves_as_far_as_loop_corrections_is_trusted() -> None:
    bp, loops = Known(((0.5, answer(0.5)),)), Known(((0.5, answer(0.6)),))
    assert first(judged(answer(0.65), bp, loops)) == pytest.approx(0.65)


def test_where_bp_settles_the_network_is_scaled_down() -> None:
    bp, loops = Known(((0.5, answer(0.5, log_z=1.0)),)), Known(((0.5, answer(0.6, log_z=2.0)),))
    found = judged(answer(0.9, log_z=6.0), bp, loops)
    assert first(found) == pytest.approx(0.6 + 0.25 * 0.3)  # a quarter of the way from the corrected BP
    assert found.log_z == pytest.approx(3.0)
    assert "scaled down" in found.message


def test_where_bp_does_not_settle_the_mean_of_all_runs_is_returned() -> None:
    restless = Status.ITERATION_LIMIT
    bp = Known(((0.5, answer(0.1, restless, 1.0)), (0.9, answer(0.3, restless, 2.0))))
    found = judged(answer(0.9, log_z=8.0), bp, Known(((0.5, answer(0.15, restless, 5.0)),)))
    assert first(found) == pytest.approx(np.mean([0.9, 0.1, 0.15, 0.3]))
    assert found.log_z == pytest.approx(4.0)
    assert "the mean of the network and of 3 runs of BP" in found.message


def test_without_time_estimates_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "stopped", property(lambda _: True))
    bp, loops = Known(((0.5, answer(0.5)),)), Known(((0.5, answer(0.5)),))
    assert first(judged(answer(0.9), bp, loops)) == pytest.approx(0.9)
