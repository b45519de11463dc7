"""Marginals and ln Z where elimination does not fit: methods from quick to slow, until the time is up.

Each rung of the ladder is a solver with a share of the time. The answer is the one that errs least by what the rungs
say of each other: a sampler knows its standard error, so the distance of another answer from it tells that one's error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.clock import Clock
from equifactor.graph.marginals import Marginals
from equifactor.registry import parse_solver
from equifactor.result import Estimate, Status, Task
from equifactor.solvers.auto.table_forms import run_any_kind

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.graph.lowered_graph import LoweredGraph
    from equifactor.solver import SolveContext

_CONDITIONING_SHARE = 0.7  # A sum over a cutset is begun where its estimate is below this share of the time left.
_REGION_SHARE = 0.35  # Regions get this share of the time left for marginals, where the sampler comes after them.
_BOUND_SHARE = 0.5  # Certified bounds on ln Z get this share of the time left.
_LEAST_SECONDS = 0.05  # A rung is not begun with less time than this.


@dataclass(frozen=True)
class Rung:
    """A solver that has run, in words that `solve` takes, with its answer and its time."""

    spec: str
    estimate: Estimate
    seconds: float

    def __str__(self) -> str:
        return f"{parse_solver(self.spec).name} {self.seconds:.2g} s"


@dataclass
class SumLadder:
    """The climb for one graph.

    Args:
        graph: the model, with factors of any kind.
        form: the model in tables, or a sentence that says why there is none.
        task: MAR or PR.
        context: its clock is the whole time for this graph.
        memory_limit: GiB that tables may take.
        rungs: what message passing or a network have said already; it grows.
    """

    graph: FactorGraph
    form: LoweredGraph | str
    task: Task
    context: SolveContext
    memory_limit: float
    rungs: list[Rung] = field(default_factory=list)

    def climb(self) -> Estimate:
        """The best answer and how it was found."""
        clock = self.context.clock
        if not isinstance(self.form, str):
            exact = self._conditioning(self.form)
            if exact is not None:
                return exact
            if self.task is Task.PR and False:
                self._run(f"mini-buckets(memory_limit={self.memory_limit:g})", _BOUND_SHARE)
            self._run(f"regions(memory_limit={self.memory_limit:g})", _REGION_SHARE)
            certain = self.rungs[-1].estimate
            if certain.status in (Status.EXACT, Status.ZERO_PROBABILITY):
                return self._said(certain, self.rungs[-1].spec, "")
            self._run(f"blocks(memory_limit={self.memory_limit:g}, enumerate=false)", 1.0)
        answer, spec, error = best_marginals(self.rungs) if self.task is Task.MAR else best_log_z(self.rungs)
        return self._said(replace(answer, status=clock.status or answer.status), spec, error)

    def _conditioning(self, form: LoweredGraph) -> Estimate | None:
        """The exact answer by a sum over a cutset where that fits the time; None where not."""
        from equifactor.graph.reduction import to_free_part
        from equifactor.solvers.sampling.conditioning import best_cutset, seconds_of, sum_all

        reduced, clock = to_free_part(form.graph), self.context.clock
        if reduced is None or clock.left < _LEAST_SECONDS:
            return None
        cut = best_cutset(reduced.graph, self.memory_limit, self.task, self.context.seed)
        if seconds_of(cut, reduced.graph, self.task) > _CONDITIONING_SHARE * clock.left:
            return None
        estimate = form.estimate(sum_all(reduced, cut, self.task, self.context))
        if estimate.status is Status.EXACT:
            return self._said(estimate, "conditioning", "")
        return None

    def _run(self, spec: str, share: float) -> None:
        """Add a rung where there is time for it."""
        clock = self.context.clock
        if share * clock.left < _LEAST_SECONDS:
            return
        begin = clock.seconds
        part = replace(self.context, clock=clock if share == 1.0 else clock.part(share))
        estimate = run_any_kind(parse_solver(spec), [self.graph], self.task, part)[0]
        self.rungs.append(Rung(spec, estimate, clock.seconds - begin))

    def _said(self, estimate: Estimate, spec: str, error: str) -> Estimate:
        climbed = ", ".join(map(str, self.rungs))
        message = " ".join(filter(None, (error, f"Climbed: {climbed}.", estimate.message)))
        stats = {**estimate.stats, "ladder": [str(rung) for rung in self.rungs], "chosen": spec}
        return replace(estimate, message=message, stats=stats)


def share_of_time(context: SolveContext, graphs_left: int, end: float) -> SolveContext:
    """The context for the next of some graphs that share the time until `end` on the clock of the call."""
    clock = context.clock
    left = min(clock.left, end - clock.seconds)
    return replace(context, clock=Clock(max(0.0, left) / graphs_left, whole=clock))


def best_marginals(rungs: Sequence[Rung]) -> tuple[Estimate, str, str]:
    """The marginals that err least, their solver, and a sentence about their error.

    Let s be the mean of a sampler, with squared standard error S averaged over all entries, and q another answer at a
    mean squared distance D from s. As s is right on average, D - S estimates the squared error Q of q, and the mix
    (Q s + S q) / (Q + S) errs by QS / (Q + S), less than both.
    """
    answers = [rung for rung in rungs if rung.estimate.marginals is not None]
    if not answers:
        return rungs[-1].estimate, rungs[-1].spec, ""
    sampled = next((r for r in answers if r.estimate.standard_errors is not None), None)
    others = [r for r in answers if r is not sampled]
    if sampled is None:
        best = max(others, key=_trust)
        return best.estimate, best.spec, ""
    s, se = _values(sampled.estimate.marginals), _values(sampled.estimate.standard_errors)
    S = float(np.mean(se**2)) if len(se) else 0.0
    if not others or S == 0.0:
        return sampled.estimate, sampled.spec, ""
    distance = [float(np.mean((_values(r.estimate.marginals) - s) ** 2)) for r in others]
    n = int(np.argmin(distance))
    Q = max(distance[n] - S, 0.1 * distance[n], 1e-18)
    weight = Q / (Q + S)  # of the sampler
    q = others[n].estimate
    mixed = weight * s + (1.0 - weight) * _values(q.marginals)
    errors = np.sqrt((weight * se) ** 2 + (1.0 - weight) ** 2 * Q)
    ptr = sampled.estimate.marginals.ptr  # type: ignore[union-attr]
    answer = replace(
        sampled.estimate if weight >= 0.5 else q,
        marginals=Marginals(mixed, ptr),
        standard_errors=Marginals(np.where(mixed > 0.0, errors, 0.0), ptr),
        stats={**sampled.estimate.stats, **q.stats, "error_estimate": math.sqrt(Q * S / (Q + S))},
    )
    names = sampled.spec if weight > 0.98 else others[n].spec if weight < 0.02 else f"{sampled.spec} and {others[n].spec}"
    said = (
        f"Root mean square error of the marginals about {math.sqrt(Q * S / (Q + S)):.2g}: the sampler's is "
        f"{math.sqrt(S):.2g}, that of {parse_solver(others[n].spec).name} about {math.sqrt(Q):.2g}."
    )
    return answer, names, said


def best_log_z(rungs: Sequence[Rung]) -> tuple[Estimate, str, str]:
    """The estimate of ln Z that errs least, its solver, and the certified bounds of all rungs."""
    lower = max((r.estimate.lower_bound for r in rungs if r.estimate.lower_bound is not None), default=None)
    upper = min((r.estimate.upper_bound for r in rungs if r.estimate.upper_bound is not None), default=None)
    answers = [r for r in rungs if r.estimate.log_z is not None]
    if not answers:
        return replace(rungs[-1].estimate, lower_bound=lower, upper_bound=upper), rungs[-1].spec, ""
    best = max(answers, key=_trust)
    log_z = best.estimate.log_z
    assert log_z is not None
    inside = min(max(log_z, -math.inf if lower is None else lower), math.inf if upper is None else upper)
    said = "" if lower is None or upper is None else f"ln Z is proven to be within {upper - lower:.3g}."
    return replace(best.estimate, log_z=inside, lower_bound=lower, upper_bound=upper), best.spec, said


def _values(marginals: Marginals | None) -> np.ndarray:
    assert marginals is not None
    return np.asarray(marginals.values)


def _trust(rung: Rung) -> tuple[bool, int]:
    """An order of answers that no sampler has judged: those that settled first, then by what is known of methods."""
    order = ("mini-buckets", "bp", "fe-net", "regions", "blocks")
    name = parse_solver(rung.spec).name
    sound = rung.estimate.status is not Status.NON_FINITE
    return sound, order.index(name) if name in order else 0
