"""Marginals and ln Z where elimination does not fit: methods from quick to slow, until the time is up.

Each rung of the ladder is a solver with a share of the time; `ladder_answers.py` makes one answer of all.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from equifactor.base.clock import Clock
from equifactor.base.status import Status, Task
from equifactor.solvers.auto.ladder_answers import LadderRung, best_log_z, best_marginals
from equifactor.solvers.auto.table_forms import run_any_kind
from equifactor.solving.estimate import Estimate
from equifactor.solving.registry import parse_solver

if TYPE_CHECKING:
    from equifactor.factors.lowered_graph import LoweredGraph
    from equifactor.graph import FactorGraph
    from equifactor.solving.solver import SolveContext

_CONDITIONING_SHARE = 0.8  # A sum over a cutset may take this share of the time left, by its pace at the beginning.
_HOPE = 4.0  # It is begun where the estimate is this many times as long: zeros may make it faster.
_GOOD = 5e-4  # Where its marginals have no larger standard error, nothing else is run.
_REGION_SHARE = 0.15  # Regions get this share of the time left, as the sampler after them gains more by time.
_TABLES = 2.0**-6  # GiB of tables for rungs after the sum over a cutset: with more, they get slower and no better.
_BOUND_SHARE = 0.5  # Certified bounds on ln Z get this share of the time left.
_LEAST_SECONDS = 0.05  # A rung is not begun with less time than this.


@dataclass(frozen=True)
class LadderLimits:
    """What a climb may use beside time: GiB of tables, and threads."""

    memory: float
    cores: int = 1


@dataclass
class SumLadder:
    """The climb for one graph.

    Args:
        graph: the model, with factors of any kind.
        form: the model in tables, or a sentence that says why there is none.
        task: MAR or PR.
        context: its clock is the whole time for this graph.
        limits: what may be used beside time.
        rungs: what message passing or a network have said already; it grows.
    """

    graph: FactorGraph
    form: LoweredGraph | str
    task: Task
    context: SolveContext
    limits: LadderLimits
    rungs: list[LadderRung] = field(default_factory=list)

    def climb(self) -> Estimate:
        """The best answer and how it was found."""
        clock = self.context.clock
        if isinstance(self.form, str):
            if self.task is Task.PR:  # Sums over tables are out of reach; these bounds need none.
                self._run("meanfield", 0.5)
                self._run("trw", 0.9)
        else:
            self._climb_tables()
            for rung in self.rungs:
                if rung.estimate.status in (Status.EXACT, Status.ZERO_PROBABILITY):
                    return self._said(rung.estimate, rung.spec, "")
        answer, spec, error = best_marginals(self.rungs) if self.task is Task.MAR else best_log_z(self.rungs)
        return self._said(replace(answer, status=clock.status or answer.status), spec, error)

    def by_cutset(self) -> Estimate | None:
        """The answer by a sum over a cutset where that is exact, or nearly so, in the time; a lesser one is a rung."""
        from equifactor.graph.reduction import to_free_part
        from equifactor.solvers.sampling.conditioning import best_cutset, seconds_of, sum_all

        clock = self.context.clock
        if isinstance(self.form, str) or clock.left < _LEAST_SECONDS:
            return None
        reduced = to_free_part(self.form.graph)
        if reduced is None:
            return None
        begin, within = clock.seconds, _CONDITIONING_SHARE * clock.left
        cut = best_cutset(reduced.graph, self.limits.memory, self.task, self.context.seed, within)
        if seconds_of(cut, self.task) > _HOPE * within:
            return None
        found = sum_all(reduced, cut, self.task, self.context, within)
        if found is None:
            return None
        found = self.form.estimate(found)
        if found.status is Status.EXACT or float(found.stats.get("max_standard_error", math.inf)) < _GOOD:
            return self._said(found, "conditioning", "")
        if found.standard_errors is not None:
            self.rungs.append(LadderRung("conditioning", found, clock.seconds - begin))
        return None

    def _climb_tables(self) -> None:
        """Bounds, regions, and then samples to the end; with more cores, samples from the beginning as well."""
        memory = f"memory_limit={min(self.limits.memory / self.limits.cores, _TABLES):g}"
        samples = f"blocks({memory}, enumerate=false)"
        with ThreadPoolExecutor(self.limits.cores) as threads:
            others = [threads.submit(self._run, samples, 1.0, n) for n in range(1, self.limits.cores)]
            if self.task is Task.PR:
                self._run(f"mini-buckets({memory})", _BOUND_SHARE)
            self._run(f"regions({memory})", _REGION_SHARE)
            if self.rungs[-1].estimate.status is not Status.EXACT:
                self._run(samples, 1.0)
                sampled = self.rungs[-1].estimate
                if sampled.marginals is None and sampled.log_z is None:  # It had too little time, or found no start.
                    self._run(f"regions({memory})", 1.0)
            for other in others:
                other.result()

    def _run(self, spec: str, share: float, stream: int = 0) -> None:
        """Add a rung where there is time for it; samplers of one climb have different streams of random numbers."""
        clock = self.context.clock
        if share * clock.left < _LEAST_SECONDS:
            return
        begin = clock.seconds
        part = replace(
            self.context, clock=clock if share == 1.0 else clock.part(share), seed=self.context.seed + 7919 * stream
        )
        estimate = run_any_kind(parse_solver(spec), [self.graph], self.task, part)[0]
        self.rungs.append(LadderRung(spec, estimate, clock.seconds - begin))

    def _said(self, estimate: Estimate, spec: str, error: str) -> Estimate:
        """The estimate with the ladder that was climbed, and why it ended, in its message."""
        climbed = f"Climbed: {', '.join(map(str, self.rungs))}." if self.rungs else ""
        message = " ".join(filter(None, (error, climbed, estimate.message)))
        stats = {**estimate.stats, "ladder": [str(rung) for rung in self.rungs], "chosen": spec}
        return replace(estimate, message=message, stats=stats)


def share_of_time(context: SolveContext, graphs_left: int, end: float) -> SolveContext:
    """The context for the next of some graphs that share the time until `end` on the clock of the call."""
    clock = context.clock
    left = min(clock.left, end - clock.seconds)
    return replace(context, clock=Clock(max(0.0, left) / graphs_left, whole=clock))
