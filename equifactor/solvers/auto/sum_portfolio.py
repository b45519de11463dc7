"""Marginals and ln Z where exact inference does not fit: runs of belief propagation, a trained network, bounds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.optional_packages import is_installed
from equifactor.base.status import Status, Task
from equifactor.solvers.auto.table_forms import has_kinds, run_any_kind, table_forms
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.solving.solver import SolveContext

# The first is a good guess for a batch; a single graph is worth the others, since loopy graphs have several fixed
# points and the one of highest Bethe ln Z is usually closest to the truth.
TRIES = (
    "bp(iterations=1000, damping=0.5)",
    "bp(iterations=200, schedule=residual)",
    "bp(iterations=500, damping=0.5, schedule=residual)",
)
LEARNED = "fe-net"
_BP_SHARE = 0.5  # BP may take this share of the time left where the network may need the rest.
_IMPORT = 3.0  # Loading torch may take this many seconds.
_SECONDS = 8e-5  # The network takes this many seconds per edge state on one core, all steps together.
_BYTES = 2500  # The network needs this much memory per edge state.
_MEMORY = 4 * 2**30  # The network may use this many bytes.


def estimates(graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[tuple[Estimate, str]]:
    """An answer and its solver for each graph: BP, and for marginals the network wherever BP fails.

    A fixed point of BP found by the best of several runs is better than the network on most public models. Where there
    is none, on strong couplings of both signs, or where beliefs vanish around near-certain loops, BP is certain and
    wrong, and the network's KL is about a tenth.
    """
    from equifactor.solving.registry import parse_solver

    learned = task is Task.MAR and is_installed("torch") and _fits(graphs, context)
    part = replace(context, clock=context.clock.part(_BP_SHARE)) if learned else context
    if len(graphs) == 1:
        found = [best_of_runs(graphs[0], task, part)]
    else:
        found = [(e, TRIES[0]) for e in parse_solver(TRIES[0]).run(graphs, task, part)]
        for n, (estimate, _) in enumerate(found):
            if _failed(estimate) and not part.clock.stopped:
                found[n] = best_of_runs(graphs[n], task, part)
    failed = [n for n, (estimate, _) in enumerate(found) if _failed(estimate)]
    if not learned or not failed or context.clock.stopped:
        return found
    for n, answer in zip(failed, _learned([graphs[n] for n in failed], task, context), strict=True):
        bp, spec = found[n]
        if answer.status in (Status.CONVERGED, Status.ITERATION_LIMIT):
            found[n] = replace(answer, log_z=bp.log_z), LEARNED  # The answer for ln Z is that of the task PR.
        else:  # It was cut short, or too large after all. BP answers, but whoever set a deadline wants to know.
            found[n] = replace(bp, status=context.clock.status or bp.status), spec
    return found


def _learned(graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
    """The answers of the network; `too-large` where it needs tables that do not fit."""
    from equifactor.solving.registry import parse_solver

    network = parse_solver(LEARNED)
    if not network.any_kind and any(map(has_kinds, graphs)):
        forms = table_forms(graphs, task)
        lowered = [form.graph for form in forms if not isinstance(form, str)]
        if len(lowered) < len(forms) or not _fits(lowered, context):
            return [Estimate(status=Status.TOO_LARGE) for _ in graphs]
    return run_any_kind(network, graphs, task, context)


def _fits(graphs: Sequence[FactorGraph], context: SolveContext) -> bool:
    """Whether the network would be done in half of the time left, and has the memory."""
    states = sum(int(g.structure.card[g.structure.scope_vars].sum()) for g in graphs)
    seconds = _SECONDS * states + (0.0 if "torch" in sys.modules else _IMPORT)
    return seconds < (1 - _BP_SHARE) * context.clock.left and _BYTES * states < _MEMORY


def _failed(estimate: Estimate) -> bool:
    short = (Status.ITERATION_LIMIT, Status.TIME_LIMIT, Status.NON_FINITE)
    return estimate.status in short or "vanished" in estimate.stats


def best_of_runs(graph: FactorGraph, task: Task, context: SolveContext) -> tuple[Estimate, str]:
    """The best run of BP and its solver: sound and settled before others, then the highest Bethe ln Z."""
    from equifactor.solving.registry import parse_solver

    runs: list[tuple[Estimate, str]] = []
    residual = context.device == "cpu" and context.dtype == "float64"  # Only there are such schedules.
    for spec in TRIES if residual else TRIES[:1]:
        if runs and context.clock.stopped:
            break
        estimate = parse_solver(spec).run([graph], task, context)[0]
        if estimate.status is Status.ZERO_PROBABILITY:
            return estimate, spec
        runs.append((estimate, spec))
    return max(runs, key=_merit)


def _merit(answer: tuple[Estimate, str]) -> tuple[bool, float]:
    estimate = answer[0]
    log_z = -np.inf if estimate.log_z is None else estimate.log_z
    settled = estimate.status is Status.CONVERGED and "vanished" not in estimate.stats
    return settled, log_z if settled else -estimate.stats.get("change", np.inf)
