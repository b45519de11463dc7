"""Marginals and ln Z where exact inference does not fit: several runs of belief propagation, and bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.result import Estimate, Status, Task

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.solver import Run

# The first is a good guess for a batch; a single graph is worth the others, since loopy graphs have several fixed
# points and the one of highest Bethe ln Z is usually closest to the truth.
TRIES = (
    "bp(iterations=1000, damping=0.5)",
    "bp(iterations=200, schedule=residual)",
    "bp(iterations=500, damping=0.5, schedule=residual)",
)


def best_of_runs(graph: FactorGraph, task: Task, run: Run) -> tuple[Estimate, str]:
    """The best run and its solver: settled before unsettled, then the highest Bethe ln Z."""
    from equifactor.spec import parse_solver

    runs: list[tuple[Estimate, str]] = []
    for spec in TRIES:
        if runs and run.clock.stopped:
            break
        estimate = parse_solver(spec).run([graph], task, run)[0]
        if estimate.status is Status.ZERO_PROBABILITY:
            return estimate, spec
        runs.append((estimate, spec))
    return max(runs, key=_merit)


def _merit(run: tuple[Estimate, str]) -> tuple[bool, float]:
    estimate = run[0]
    log_z = -np.inf if estimate.log_z is None else estimate.log_z
    settled = estimate.status is Status.CONVERGED
    return settled, log_z if settled else -estimate.stats.get("change", np.inf)


def with_bounds(estimate: Estimate, graph: FactorGraph, run: Run) -> Estimate:
    """The same estimate of ln Z with a lower bound by mean field and an upper one by reweighting."""
    from equifactor.spec import parse_solver

    lower = upper = None
    if not run.clock.stopped:
        lower = parse_solver("meanfield").run([graph], Task.PR, run)[0].lower_bound
    if not run.clock.stopped:
        upper = parse_solver("trw").run([graph], Task.PR, run)[0].upper_bound
    return replace(estimate, lower_bound=lower, upper_bound=upper)
