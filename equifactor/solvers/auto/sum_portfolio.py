"""Quick marginals and ln Z if exact inference does not fit: runs of belief propagation, and a trained network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import GIB, Budget, Refusal, Seconds
from equifactor.base.clock import NotCompiledError
from equifactor.base.optional_packages import is_installed
from equifactor.base.status import Status, Task
from equifactor.kernels.compile_costs import can_compile
from equifactor.solvers.auto.table_forms import run_any_kind, table_forms
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.solvers.messages.bp import BeliefPropagation
    from equifactor.solving.solver import SolveContext, Solver

# The share of the time left for BP if the network may need the rest. Halved or doubled: error within 10 %.
_BP_SHARE = 0.5
_BYTES = 2500  # Bytes that the network needs for an edge state. Estimated from the sizes of its tensors.
_MEMORY = 4 * GIB  # Bytes that the network may use, as many as `exact` by default.


def bp_tries() -> tuple[BeliefPropagation, ...]:
    """Return the runs of BP to compare.

    The first is a good choice for a batch. A single graph gets all: loopy graphs have several fixed points, and the
    one with the highest Bethe ln Z is usually closest to the truth.
    """
    from equifactor.solvers.messages.bp import BeliefPropagation

    return (
        BeliefPropagation(iterations=1000, damping=0.5),
        BeliefPropagation(iterations=200, schedule="residual"),
        BeliefPropagation(iterations=500, damping=0.5, schedule="residual"),
    )


def estimates(graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[tuple[Estimate, Solver]]:
    """Return an answer and its solver for each graph: BP, and for marginals the network if BP fails.

    The best of several fixed points of BP is better than the network on most public models. With strong couplings of
    both signs BP has no fixed point, and around near-certain loops its beliefs vanish. There BP is certain and wrong,
    and the KL of the network is about a tenth.
    """
    learned = task is Task.MAR and _can_run(context) and network_fits(graphs, context)
    part = replace(context, clock=context.clock.part(_BP_SHARE)) if learned else context
    if len(graphs) == 1:
        found: list[tuple[Estimate, Solver]] = [best_of_runs(graphs[0], task, part)]
    else:
        bp = bp_tries()[0]
        found = [(e, bp) for e in bp.run(graphs, task, part)]
        for n, (estimate, _) in enumerate(found):
            if _failed(estimate) and not part.clock.stopped:
                found[n] = best_of_runs(graphs[n], task, part)
    failed = [n for n, (estimate, _) in enumerate(found) if _failed(estimate)]
    if not learned or not failed or context.clock.stopped:
        return found
    from equifactor.solvers.learned.fe_net_solver import FENetSolver

    network = FENetSolver()
    for n, answer in zip(failed, _learned(network, [graphs[n] for n in failed], task, context), strict=True):
        before, solver = found[n]
        if answer.status in (Status.CONVERGED, Status.ITERATION_LIMIT):
            found[n] = replace(answer, log_z=before.log_z), network  # The answer for ln Z is that of the task PR.
        else:  # The network was cut short or is too large. BP answers, with the status of a missed deadline.
            found[n] = replace(before, status=context.clock.status or before.status), solver
    return found


def _learned(network: Solver, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
    """Return the answers of the network; their status is `too-large` if it needs dense tables that do not fit."""
    if not all(map(network.takes_kinds_of, graphs)):
        forms = table_forms(graphs, task)
        lowered = [form.graph for form in forms if not isinstance(form, Refusal)]
        if len(lowered) < len(forms) or not network_fits(lowered, context):
            return [Estimate(status=Status.TOO_LARGE) for _ in graphs]
    return run_any_kind(network, graphs, task, context)


def network_fits(graphs: Sequence[FactorGraph], context: SolveContext) -> bool:
    """Return whether the network should end within half of the time left, and fits memory."""
    states = sum(int(g.structure.card[g.structure.scope_vars].sum()) for g in graphs)
    work = Seconds.NETWORK_STATE * states
    return Budget(context.clock, memory=_MEMORY).worth_starting(work, 1 - _BP_SHARE, _BYTES * states)


def _can_run(context: SolveContext) -> bool:
    """Return whether the network can run: on a GPU it needs torch."""
    return context.device == "cpu" or is_installed("torch")


def _failed(estimate: Estimate) -> bool:
    short = (Status.ITERATION_LIMIT, Status.TIME_LIMIT, Status.NON_FINITE)
    return estimate.status in short or "vanished" in estimate.stats


def best_of_runs(graph: FactorGraph, task: Task, context: SolveContext) -> tuple[Estimate, Solver]:
    """Return the best run of BP and its solver: settled runs first, then the highest Bethe ln Z."""
    runs: list[tuple[Estimate, Solver]] = []
    # Residual schedules exist only on the CPU, and in compiled kernels.
    residual = context.device == "cpu" and context.dtype == "float64" and can_compile(context.clock, 1.0, "bp")
    for solver in bp_tries() if residual else bp_tries()[:1]:
        if runs and context.clock.stopped:
            break
        try:
            estimate = solver.run([graph], task, context)[0]
        except NotCompiledError as error:
            estimate = Estimate(status=Status.TIME_LIMIT, message=str(error))
        if estimate.status is Status.ZERO_PROBABILITY:
            return estimate, solver
        runs.append((estimate, solver))
    return max(runs, key=_merit)


def _merit(answer: tuple[Estimate, Solver]) -> tuple[bool, float]:
    estimate = answer[0]
    log_z = -np.inf if estimate.log_z is None else estimate.log_z
    settled = estimate.status is Status.CONVERGED and "vanished" not in estimate.stats
    return settled, log_z if settled else -estimate.stats.get("change", np.inf)
