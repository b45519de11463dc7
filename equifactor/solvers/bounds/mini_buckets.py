"""Weighted mini-buckets and fields of blocks: ln Z between two certified bounds that close with time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.reduction import to_free_part
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

LARGEST = 1e200  # Sums of log entries no larger than this cannot overflow, however many there are.
_TOO_LARGE = f"A table has log entries beyond {LARGEST:g}, whose sums may overflow: use smaller units."
_TRIES = 16  # orders to try for exact elimination
_WORK_PER_SECOND = 5e6  # list operations for that per second of time left: a tenth of it
_FROM_BELOW = 0.2  # ln Z lies at about this share of the gap, by the median of eight public models.
_LOWER_SHARE = 0.3  # The lower bound gets this share of the time.
_EXACT_SHARE = 0.4  # Exact elimination is run where it should end within this share of the time.


@register("mini-buckets")
@dataclass(frozen=True, kw_only=True)
class WeightedMiniBuckets(GraphSolver):
    """Weighted mini-buckets and exact blocks: ln Z between certified bounds that tighten with time; often exact.

    Above: the factors are covered by layers, each eliminated with clusters of bounded size. A variable has one copy per
    layer, and the copies are summed out by powered sums whose weights add up to one, which is at least the true sum by
    Hoelder's inequality [Liu11]. What the layers share is shifted between them, and the weights are moved, by L-BFGS.
    Below: mean field over blocks that are exact within. Both begin with small clusters and go on with larger ones.
    """

    tasks = (Task.MAR, Task.PR)
    symmetries = frozenset()  # layers and blocks follow the numbering of variables and factors
    exact_on = "trees"

    seconds: float = option(10.0, "time to work where there is no time limit", low=0.0)
    entries: int | None = option(None, "most entries of a cluster; none: as time and memory allow", low=1)
    iterations: int = option(100_000, "most iterations above, at all sizes together, and splits below", low=1)
    memory_limit: float = option(1.0, "GiB of tables", low=0.0)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Exact where that is cheap; otherwise both bounds, at growing cluster sizes."""
        if np.any((np.abs(graph.log_phi) > LARGEST) & (graph.log_phi > -np.inf)):
            return Estimate(status=Status.NON_FINITE, message=_TOO_LARGE)
        clock = context.clock
        if clock.left == math.inf:
            clock = Clock(self.seconds, whole=clock)
        reduced = to_free_part(graph)
        if reduced is None:
            return impossible()
        exact = self._exact(reduced, task, SolveContext(clock=clock, seed=context.seed))
        if exact is not None:
            return exact
        return self._bounds(graph, reduced, task, context, clock)

    def _exact(self, reduced: ReducedGraph, task: Task, context: SolveContext) -> Estimate | None:
        """The answer by elimination where its plan stays within all limits."""
        left = context.clock.left
        steps = plan(
            reduced, memory_limit=self.memory_limit, task=task, tries=_TRIES, most_work=_WORK_PER_SECOND * left,
            seed=context.seed,
        )  # fmt: skip
        too_large = self.entries is not None and steps.log2_largest > math.log2(self.entries)
        if too_large or not steps.fits(self.memory_limit, task) or steps.seconds(task) > _EXACT_SHARE * left:
            return None
        found = Exact(memory_limit=self.memory_limit).run_plan(reduced.original, steps, task, context)
        return found if found.log_z is not None else None

    def _bounds(
        self, graph: FactorGraph, reduced: ReducedGraph, task: Task, context: SolveContext, clock: Clock
    ) -> Estimate:
        from equifactor.solvers.bounds.lower_side import LowerSide
        from equifactor.solvers.bounds.upper_side import UpperSide

        most_bits = math.inf if self.entries is None else math.log2(self.entries)
        upper = UpperSide(reduced.graph, most_bits, self.memory_limit, self.iterations, context.seed)
        lower = LowerSide(reduced.graph, most_bits, self.memory_limit, self.iterations, context.seed)
        upper.begin(clock)
        if upper.best > -math.inf:
            lower.begin(clock)
        while not (upper.finished and lower.finished) and not clock.stopped and upper.best > -math.inf:
            if upper.finished or (lower.seconds < _LOWER_SHARE * clock.seconds and not lower.finished):
                lower.advance(upper.orders, clock)
            else:
                upper.advance(clock)
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
        none = "" if low is not None else " No assignment of positive probability was found to bound it from below."
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
    """An estimate of ln Z from its bounds, nearer to the lower one: on public models it is the closer one."""
    if low is None or high is None:
        return high if low is None else low
    return low + _FROM_BELOW * (high - low)
