"""The solver `mini-buckets`: ln Z between two certified bounds that come closer with time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import GIB, LARGEST_LOG, Budget, Seconds, planning_work
from equifactor.base.clock import Clock, WorkClock
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.reduction import to_free_part
from equifactor.solvers.bounds.elimination_orders import PLANNING_SHARE, TRIES
from equifactor.solvers.elimination.exact import Exact
from equifactor.solvers.elimination.impossibility import proven_impossible
from equifactor.solvers.elimination.plan import plan
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.graph.reduction import ReducedGraph
    from equifactor.solvers.bounds.lower_side import LowerSide
    from equifactor.solvers.bounds.upper_side import UpperSide

_TOO_LARGE = f"A table has log entries beyond {LARGEST_LOG:g}, whose sums may overflow. Use smaller log entries."
_FROM_BELOW = 0.2  # The estimate of ln Z lies at this share of the gap, the median of eight public models.
_LOWER_MEMORY = 0.25  # The share of the memory for the lower bound, whose tables are smaller. Chosen by hand.
_LOWER_SHARE = 0.3  # The share of the time for the lower bound. Halved or doubled: gap within 20 %.
# Exact elimination is run if it should end within this share of the time. Halved or doubled: gap within 15 %.
_EXACT_SHARE = 0.4


@register("mini-buckets")
@dataclass(frozen=True, kw_only=True)
class WeightedMiniBuckets(GraphSolver):
    """Weighted mini-buckets and exact blocks: ln Z between certified bounds that tighten with time; often exact.

    Above: layers cover the factors, and each layer is eliminated with clusters of bounded size. A variable has one copy
    per layer. The copies are summed out by powered sums whose weights add up to one, which is at least the true sum by
    Hoelder's inequality [Liu11]. L-BFGS shifts functions between the layers and moves the weights.
    Below: mean field over blocks that are exact within. Both begin with small clusters and continue with larger ones.
    """

    tasks = (Task.MAR, Task.PR)
    symmetries = frozenset()  # layers and blocks follow the numbering of variables and factors
    exact_on = "trees"

    seconds: float = option(10.0, "estimated seconds of work if there is no time limit", low=0.0)
    entries: int | None = option(None, "most entries of a cluster; none for as many as time and memory allow", low=1)
    iterations: int = option(100_000, "most iterations of the upper bound, and most splits of the lower bound", low=1)
    memory_limit: float = option(1.0, "GiB of tables", low=0.0)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Eliminate exactly if that is cheap; otherwise compute both bounds at growing cluster sizes."""
        if np.any((np.abs(graph.log_phi) > LARGEST_LOG) & (graph.log_phi > -np.inf)):
            return Estimate(status=Status.NON_FINITE, message=_TOO_LARGE)
        clock = context.clock
        if clock.left == math.inf:
            clock = WorkClock(self.seconds, clock)  # The same call does the same work.
        reduced = to_free_part(graph)
        if reduced is None:
            return impossible()
        exact = self._exact(reduced, task, SolveContext(clock=clock, seed=context.seed))
        if exact is not None:
            return exact
        return self._bounds(graph, reduced, task, context, clock)

    def _exact(self, reduced: ReducedGraph, task: Task, context: SolveContext) -> Estimate | None:
        """Return the answer by elimination if its plan stays within all limits, otherwise None."""
        budget = Budget(context.clock)
        steps = plan(
            reduced, memory_limit=self.memory_limit, task=task, tries=TRIES,
            most_work=planning_work(PLANNING_SHARE * context.clock.left, budget.speed), seed=context.seed,
        )  # fmt: skip
        context.clock.spend(Seconds.LAYER_BUILD * reduced.graph.structure.num_edges)
        too_large = self.entries is not None and steps.log2_largest > math.log2(self.entries)
        fits = not too_large and steps.fits(self.memory_limit, task)
        if not fits or not budget.worth_starting(steps.seconds(task), _EXACT_SHARE):
            return None
        found = Exact(memory_limit=self.memory_limit).run_plan(reduced.original, steps, task, context)
        context.clock.spend(steps.seconds(task))
        return found if found.log_z is not None else None

    def _bounds(
        self, graph: FactorGraph, reduced: ReducedGraph, task: Task, context: SolveContext, clock: Clock
    ) -> Estimate:
        from equifactor.solvers.bounds.lower_side import LowerSide
        from equifactor.solvers.bounds.upper_side import UpperSide

        most_bits = math.inf if self.entries is None else math.log2(self.entries)
        memory, seed = self.memory_limit * GIB, context.seed
        for_upper, for_lower = (Budget(clock, memory=s * memory) for s in (1.0 - _LOWER_MEMORY, _LOWER_MEMORY))
        upper = UpperSide(reduced.graph, most_bits, self.iterations, seed, for_upper)
        lower = LowerSide(reduced.graph, most_bits, self.iterations, upper.orders, seed, for_lower)
        above, below = upper.ladder, lower.ladder
        above.advance()
        lower.flat = upper.flat
        if upper.best > -math.inf:
            below.advance()
        while not (above.finished and below.finished) and not clock.stopped and upper.best > -math.inf:
            if above.finished or (below.seconds < _LOWER_SHARE * clock.seconds and not below.finished):
                below.advance()
            else:
                above.advance()
            context.report(upper.iterations, None, f"{lower.best:.6g} <= ln Z <= {upper.best:.6g}")
        if lower.best == -math.inf:
            lower.search(clock)
        return self._estimate(graph, reduced, upper, lower, clock)

    def _estimate(
        self, graph: FactorGraph, reduced: ReducedGraph, upper: UpperSide, lower: LowerSide, clock: Clock
    ) -> Estimate:
        if upper.best == -math.inf:
            return impossible()  # Nothing overflows, so it follows from zeros of the tables.
        if not math.isfinite(lower.best) and proven_impossible(graph, clock):
            return impossible()
        high = upper.best if upper.best < math.inf else None
        low = lower.best if lower.best > -math.inf else None
        ended = Status.CONVERGED if upper.settled else Status.TIME_LIMIT
        if upper.iterations >= self.iterations:
            ended = Status.ITERATION_LIMIT
        none = "" if low is not None else " There is no lower bound: no assignment of positive probability was found."
        return Estimate(
            status=clock.status or ended,
            message=f"{upper.description}; below {lower.description}.{none}",
            marginals=reduced.marginals(upper.marginals),
            log_z=between(low, high),
            lower_bound=low,
            upper_bound=high,
            iterations=upper.iterations,
            stats={"cluster_entries": upper.largest, "layers": upper.layers, "block_entries": lower.largest},
        )


def between(low: float | None, high: float | None) -> float | None:
    """Return an estimate of ln Z from its bounds, nearer to the lower bound, which is closer on public models."""
    if low is None or high is None:
        return high if low is None else low
    return low + _FROM_BELOW * (high - low)
