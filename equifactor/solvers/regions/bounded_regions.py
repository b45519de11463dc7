"""The solver `regions`: exact inference in regions of bounded size that pass messages, larger while time is left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.budget import FLOAT_BYTES, GIB, Budget
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.reduction import ReducedGraph, to_free_part
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.elimination.orders import random_state
from equifactor.solvers.regions.agreement import Rounds, last_move
from equifactor.solvers.regions.growing_regions import GrowingRegions, RegionLimits
from equifactor.solvers.regions.sampled_check import check_by_sampling
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.solvers.regions.sampled_check import CheckedAnswer


@register("regions")
@dataclass(frozen=True, kw_only=True)
class Regions(GraphSolver):
    """Exact inference in regions of bounded size that pass messages; the bound grows while time is left.

    Variables are split into clones until elimination stays within the bound. Variables whose state is nearly certain
    are split first. The clones of a variable exchange messages until their marginals agree. With tables no larger than
    the factors this is belief propagation; if nothing is split it is exact. At the largest bound that fits, several
    splittings are run and averaged until the time is up. A short run of a sampler then shows how large the errors are,
    and is averaged with an answer that it contradicts.
    """

    tasks = (Task.MAR, Task.PR)
    symmetries = frozenset()  # Splittings are drawn at random.

    start: int = option(10, "log2 of the entries of the largest table at the first bound", low=0, high=60)
    bound: int = option(40, "log2 of the entries of the largest table at the last bound", low=0, high=60)
    memory_limit: float = option(1.0, "GiB of tables", low=0.0)
    seconds: float = option(10.0, "estimated seconds of work if there is no time limit", low=0.0)
    splittings: int = option(64, "most splittings to average at the last bound", low=1)
    iterations: int = option(100, "most rounds of messages for each splitting", low=1)
    tolerance: float = option(1e-3, "a splitting has settled when no message changes by more, in probability", low=0.0)
    damping: float = option(0.3, "share of the old log message that is kept", low=0.0, high=0.99)
    check: float = option(
        0.15, "share of the time for a sampler that shows and corrects errors; 0 for no sampler", low=0.0, high=0.9
    )

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Run splittings at growing bounds, average them, and estimate the error."""
        reduced = to_free_part(graph)
        if reduced is None:
            return impossible()
        part = context.clock.part(1.0 - self.check)
        regions = GrowingRegions(
            reduced.graph,
            RegionLimits(min(self.start, self.bound), self.bound, self.splittings),
            Rounds(self.iterations, self.tolerance, self.damping),
            random_state(context.seed),
            Budget(part, self.seconds, self.memory_limit * GIB),
            context.report,
        )
        regions.run()
        if regions.outcome is Status.ZERO_PROBABILITY:
            return zero_by_exclusion(graph)
        if not regions.splittings:
            return _by_bp(graph, task, context)
        checked = None
        if self.check and regions.outcome is not Status.EXACT:
            seconds = Budget(context.clock, self.check * self.seconds).left
            # The sampler has tables as large as those of the regions, so that it sees what they do not.
            memory = min(self.memory_limit, 2.0 ** regions.at_top[-1].bound * FLOAT_BYTES / GIB)
            checked = check_by_sampling(reduced.graph, regions.average(), regions.log_z(), seconds, memory, context)
        return _estimate(reduced, regions, checked, task, context)


def _by_bp(graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
    """Return the answer of belief propagation, for a graph that is too large to be split in the time."""
    from equifactor.solvers.messages.bp import BeliefPropagation

    found = BeliefPropagation(damping=0.5).run([graph], task, context)[0]
    said = "There was not enough time to split variables. This is the answer of belief propagation."
    return replace(found, message=f"{said} {found.message}".strip())


def _estimate(
    reduced: ReducedGraph, regions: GrowingRegions, checked: CheckedAnswer | None, task: Task, context: SolveContext
) -> Estimate:
    last = regions.at_top[-1]
    p, log_z = (regions.average(), regions.log_z()) if checked is None else (checked.marginals, checked.log_z)
    exact = regions.outcome is Status.EXACT
    error = np.zeros(len(reduced.graph.card)) if exact else regions.error()
    kept = regions.kept()
    num_settled = sum(one.found.change <= regions.rounds.tolerance for one in regions.at_top)
    settled = 2 * num_settled > len(regions.at_top)
    stopped = context.clock.status or regions.budget.clock.status
    status = Status.EXACT if exact else stopped or (Status.CONVERGED if settled else Status.ITERATION_LIMIT)
    stats: dict[str, Any] = {
        "bound": last.bound, "log2_largest_table": round(last.largest, 2), "splits": last.splits,
        "splittings": len(regions.at_top), "settled_splittings": num_settled,
        "bounds": sorted({one.bound for one in regions.splittings}),
        "change": max(one.found.change for one in kept),
    }  # fmt: skip
    said = ""
    if not exact and error is not None:
        moves, moved = last_move(reduced, error)
        stats |= moves
        said = f"The last change of bound or splitting {moved}"
    if checked is not None:
        said += f" The standard errors are from the distance to a short run of {checked.sampler}."
        if checked.moved:
            said += f" That distance is large, so the marginals are averaged with those of {checked.sampler}."
    return Estimate(
        status=status,
        message=said,
        marginals=reduced.marginals(p) if task is Task.MAR else None,
        standard_errors=reduced.errors(checked.errors) if checked is not None and task is Task.MAR else None,
        log_z=log_z,
        log_z_error=None if checked is None else checked.log_z_error,
        lower_bound=log_z if exact else None,
        upper_bound=log_z if exact else None,
        iterations=sum(one.found.rounds for one in regions.splittings),
        stats=stats,
    )
