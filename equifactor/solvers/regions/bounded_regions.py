"""Marginals and ln Z where exact inference does not fit: regions of bounded size, larger while time is left."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.reduction import ReducedGraph, to_free_part
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.elimination.orders import random_state
from equifactor.solvers.regions.agreement import Rounds, last_move
from equifactor.solvers.regions.climb import Climb, Limits
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph


@register("regions")
@dataclass(frozen=True, kw_only=True)
class Regions(GraphSolver):
    """Exact inference in regions of bounded size that pass messages; the bound grows while time is left.

    Variables are split into clones until elimination stays within the bound, cheap ones first: those whose state is
    nearly certain. The clones of a variable tell each other their marginals without what they were told, until they
    agree. With tables no larger than the factors this is belief propagation; where nothing is split it is exact. At the
    largest bound that fits, several splittings are run and averaged until the time is up.
    """

    tasks = (Task.MAR, Task.PR)
    symmetries = frozenset()  # Splittings are drawn at random.

    start: int = option(10, "log2 of the entries of the largest table at the first bound", low=0, high=60)
    bound: int = option(40, "log2 of the entries of the largest table at the last bound", low=0, high=60)
    memory_limit: float = option(1.0, "GiB of tables", low=0.0)
    seconds: float = option(10.0, "nominal seconds of work where there is no time limit", low=0.0)
    splittings: int = option(64, "most splittings to average at the last bound", low=1)
    iterations: int = option(100, "most rounds of messages for each splitting", low=1)
    tolerance: float = option(1e-3, "a splitting has settled when no message changes by more", low=0.0)
    damping: float = option(0.3, "how much of an old message stays", low=0.0, high=0.99)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Climb, average, say how far the last bound moved the answer."""
        reduced = to_free_part(graph)
        if reduced is None:
            return impossible()
        seconds = self.seconds if context.clock.time_limit is None else math.inf
        climb = Climb(
            reduced.graph,
            Limits(min(self.start, self.bound), self.bound, self.memory_limit * 2**30, seconds, self.splittings),
            Rounds(self.iterations, self.tolerance, self.damping),
            random_state(context.seed),
            context.clock,
            context.report,
        )
        climb.run()
        if climb.outcome is Status.ZERO_PROBABILITY:
            return zero_by_exclusion(graph)
        if not climb.rungs:
            return _by_bp(graph, task, context)
        return _estimate(reduced, climb, task, context)


def _by_bp(graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
    """The answer of belief propagation, where the time is not enough to split the variables of a large graph."""
    from equifactor.solving.registry import parse_solver

    found = parse_solver("bp(damping=0.5)").run([graph], task, context)[0]
    said = "The time was not enough to split variables: this is the answer of belief propagation."
    return replace(found, message=f"{said} {found.message}".strip())


def _estimate(reduced: ReducedGraph, climb: Climb, task: Task, context: SolveContext) -> Estimate:
    p, last = climb.average(), climb.at_top[-1]
    exact = climb.outcome is Status.EXACT
    error = np.zeros(len(reduced.graph.card)) if exact else climb.error()
    kept = climb.kept()
    log_z = float(np.mean([rung.found.log_z for rung in climb.settled(climb.at_top)]))
    num_settled = sum(rung.found.change <= climb.rounds.tolerance for rung in climb.at_top)
    settled = 2 * num_settled > len(climb.at_top)
    status = (
        Status.EXACT if exact
        else context.clock.status or (Status.CONVERGED if settled else Status.ITERATION_LIMIT)
    )  # fmt: skip
    stats: dict[str, Any] = {
        "bound": last.bound, "log2_largest_table": round(last.largest, 2), "splits": last.splits,
        "splittings": len(climb.at_top), "settled_splittings": num_settled,
        "bounds": sorted({rung.bound for rung in climb.rungs}),
        "change": max(rung.found.change for rung in kept),
    }  # fmt: skip
    said = ""
    if not exact and error is not None:
        moves, moved = last_move(reduced, error)
        stats |= moves
        said = f"The last change of bound or splitting {moved}"
    return Estimate(
        status=status,
        message=said,
        marginals=reduced.marginals(p) if task is Task.MAR else None,
        log_z=log_z,
        lower_bound=log_z if exact else None,
        upper_bound=log_z if exact else None,
        iterations=sum(rung.found.rounds for rung in climb.rungs),
        stats=stats,
    )
