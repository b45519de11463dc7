"""Marginals and ln Z where elimination does not fit: methods from quick to slow, until the time is up.

Each rung of the ladder is a solver with a share of the time. The answer is the one that errs least by what the rungs
say of each other: a sampler knows its standard error, so the distance of another answer from it tells that one's error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.clock import Clock
from equifactor.graph.marginals import Marginals
from equifactor.registry import parse_solver
from equifactor.result import Estimate, Status, Task
from equifactor.solvers.auto.table_forms import run_any_kind
from equifactor.solvers.sampling.chain_driver import R_HAT_LIMIT

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.graph.lowered_graph import LoweredGraph
    from equifactor.solver import SolveContext
    from equifactor.typing import FloatArray

_CONDITIONING_SHARE = 0.7  # A sum over a cutset may take this share of the time left, by its pace at the beginning.
_HOPE = 4.0  # It is begun where the estimate is this many times as long: zeros may make it faster.
_GOOD = 5e-4  # Where its marginals have no larger standard error, nothing else is run.
_REGION_SHARE = 0.15  # Regions get this share of the time left, as the sampler after them gains more by time.
_TABLES = 2.0**-6  # GiB of tables for rungs after the sum over a cutset: with more, they get slower and no better.
_BOUND_SHARE = 0.5  # Certified bounds on ln Z get this share of the time left.
_LEAST_SHARE = 0.1  # At least this share of its distance from a sampler is put down to an answer,
_UNSURE = 0.5  # and this one where chains have not mixed, whose error is a guess, or where there is one number only.
_LEAST_SECONDS = 0.05  # A rung is not begun with less time than this.


@dataclass(frozen=True)
class LadderRung:
    """A solver that has run, in words that `solve` takes, with its answer and its time."""

    spec: str
    estimate: Estimate
    seconds: float

    @property
    def name(self) -> str:
        """The name of the solver."""
        return self.spec.split("(")[0]

    def __str__(self) -> str:
        return f"{self.name} {self.seconds:.2g} s"


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


def best_marginals(rungs: Sequence[LadderRung]) -> tuple[Estimate, str, str]:
    """The marginals that err least, their solver, and a sentence about their error.

    Let s be the mean of a sampler, with squared standard error S averaged over all entries, and q another answer at a
    mean squared distance D from s. As s is right on average, D - S estimates the squared error Q of q, and the mix
    (Q s + S q) / (Q + S) errs by QS / (Q + S), less than both.
    """
    answers = [rung for rung in rungs if rung.estimate.marginals is not None]
    if not answers:
        return rungs[-1].estimate, rungs[-1].spec, ""
    sampled = _together([r for r in answers if r.estimate.standard_errors is not None])
    others = [r for r in answers if r.estimate.standard_errors is None]
    if sampled is None:
        best = max(others, key=_trust)
        return best.estimate, best.spec, ""
    s, se = _values(sampled.estimate.marginals), _values(sampled.estimate.standard_errors)
    S = float(np.mean(se**2)) if len(se) else 0.0
    if not others or S == 0.0:
        return sampled.estimate, sampled.spec, ""
    distance = [float(np.mean((_values(r.estimate.marginals) - s) ** 2)) for r in others]
    n = int(np.argmin(distance))
    agree = float(sampled.estimate.stats.get("max_r_hat", 1.0)) < R_HAT_LIMIT
    q, Q = others[n], _squared_error(distance[n], S, _LEAST_SHARE if agree else _UNSURE)
    S = min(S, distance[n])  # Both errors together make the distance.
    weight = Q / (Q + S)  # of the sampler
    mixed = weight * s + (1.0 - weight) * _values(q.estimate.marginals)
    errors = np.sqrt((weight * se) ** 2 + (1.0 - weight) ** 2 * Q)
    ptr = sampled.estimate.marginals.ptr  # type: ignore[union-attr]
    error = math.sqrt(Q * S / (Q + S))
    answer = replace(
        sampled.estimate if weight >= 0.5 else q.estimate,
        marginals=Marginals(mixed, ptr),
        standard_errors=Marginals(np.where((mixed > 0.0) & (mixed < 1.0), errors, 0.0), ptr),
        stats={**q.estimate.stats, **sampled.estimate.stats, "error_estimate": error},
    )
    said = (
        f"Root mean square error of the marginals about {error:.2g}: that of the sampler is {math.sqrt(S):.2g}, that "
        f"of {q.name} about {math.sqrt(Q):.2g}."
    )
    return answer, _mixed_name(weight, sampled, q), said


def best_log_z(rungs: Sequence[LadderRung]) -> tuple[Estimate, str, str]:
    """The estimate of ln Z that errs least, its solver, and the certified bounds of all rungs.

    A sampler judges the others as in `best_marginals`, and nothing leaves the bounds.
    """
    lower = max((r.estimate.lower_bound for r in rungs if r.estimate.lower_bound is not None), default=None)
    upper = min((r.estimate.upper_bound for r in rungs if r.estimate.upper_bound is not None), default=None)
    bounds: dict[str, Any] = {"lower_bound": lower, "upper_bound": upper}
    answers = [r for r in rungs if r.estimate.log_z is not None]
    if not answers:
        return replace(rungs[-1].estimate, **bounds), rungs[-1].spec, ""
    sampled = max(
        (r for r in answers if r.estimate.log_z_error is not None),
        key=lambda r: -_number(r.estimate.log_z_error),
        default=None,
    )
    best = max(answers, key=_trust)
    log_z, error, name = _number(best.estimate.log_z), best.estimate.log_z_error, best.spec
    others = [r for r in answers if r.estimate.log_z_error is None]
    if sampled is not None and others:
        s, S = _number(sampled.estimate.log_z), _number(sampled.estimate.log_z_error) ** 2
        q = min(others, key=lambda r: abs(_number(r.estimate.log_z) - s))
        Q = _squared_error((_number(q.estimate.log_z) - s) ** 2, S, _UNSURE)
        weight = Q / (Q + S) if Q + S > 0.0 else 1.0
        log_z, error = weight * s + (1.0 - weight) * _number(q.estimate.log_z), math.sqrt(Q * S / max(Q + S, 1e-300))
        name = _mixed_name(weight, sampled, q)
    inside = min(max(log_z, -math.inf if lower is None else lower), math.inf if upper is None else upper)
    said = "" if lower is None or upper is None else f"ln Z is proven to be within {upper - lower:.3g}."
    if error is not None:
        said = f"Standard error of ln Z about {error:.2g}. {said}".strip()
    return replace(best.estimate, log_z=inside, log_z_error=error, marginals=None, **bounds), name, said


def _squared_error(distance: float, sampled: float, least: float) -> float:
    """The squared error of an answer at a squared distance from a sampler with a known squared error.

    Args:
        distance: mean squared distance of the two.
        sampled: squared error of the sampler.
        least: the least share of the distance that is put down to the answer.
    """
    return max(distance - sampled, least * distance, 1e-18)


def _together(samplers: Sequence[LadderRung]) -> LadderRung | None:
    """Several samplers as one: each has a weight of one over its squared error."""
    if len(samplers) < 2:
        return samplers[0] if samplers else None
    errors = np.stack([_values(r.estimate.standard_errors) for r in samplers])
    weight = 1.0 / np.maximum(np.mean(errors**2, axis=1), 1e-18)
    weight /= weight.sum()
    values = weight @ np.stack([_values(r.estimate.marginals) for r in samplers])
    best = samplers[int(np.argmax(weight))]
    ptr = best.estimate.marginals.ptr  # type: ignore[union-attr]
    together = np.sqrt((weight**2) @ errors**2)
    estimate = replace(best.estimate, marginals=Marginals(values, ptr), standard_errors=Marginals(together, ptr))
    return LadderRung(best.spec, estimate, best.seconds)


def _mixed_name(weight: float, sampled: LadderRung, other: LadderRung) -> str:
    if weight > 0.98:
        return sampled.spec
    return other.spec if weight < 0.02 else f"{sampled.spec} and {other.spec}"


def _values(marginals: Marginals | None) -> FloatArray:
    assert marginals is not None
    return marginals.values


def _number(value: float | None) -> float:
    assert value is not None
    return value


def _trust(rung: LadderRung) -> tuple[bool, int]:
    """An order of answers that no sampler has judged: sound ones first, then by what is known of methods."""
    order = ("mini-buckets", "bp", "fe-net", "regions", "blocks")
    sound = rung.estimate.status is not Status.NON_FINITE
    return sound, order.index(rung.name) if rung.name in order else -1
