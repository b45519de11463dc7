"""One answer from the answers of several solvers: the one whose estimated error is smallest.

A sampler knows its standard error. So the distance of another answer from the sampler's shows the error of that answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.status import Status
from equifactor.graph.marginals import Marginals
from equifactor.solvers.regions.sampled_check import LOG_Z_SHARE, errors_by_distance
from equifactor.solvers.sampling.diagnostics import R_HAT_LIMIT
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.solving.solver import Solver

# The least share of its distance from a sampler that counts as an answer's error. Halved or doubled: error within 15 %.
_LEAST_SHARE = 0.1
# The least share of its distance from a sampler that counts as an answer's error, if chains have not mixed or if there
# is one number only. Halved or doubled: error within 10 %.
_UNSURE_SHARE = 0.5
# A larger error of ln Z of a sampler comes from an assumption about draws that were not made. Halved or doubled: the
# same answers.
_MEASURED_LOG_Z = 1.0
# The least error of that sampler if another answer is near: the two may be near by chance. By `benchmarks.coverage`,
# tuning seeds.
_LEAST_LOG_Z = 0.55
# Between the errors of ln Z of a sampler and of the nearest other answer. By `benchmarks.coverage`, tuning seeds.
_CORRELATION = 0.5
# R-hat of chains up to which another answer may correct an error of ln Z above `_MEASURED_LOG_Z`. Halved or doubled:
# the same answers.
_NEARLY_MIXED = 1.2
# A squared distance of up to this many times the squared standard error of a sampler can be chance. Then the squared
# error of an answer is taken to be at most this many times its squared distance from another answer.
_BY_CHANCE = 1.5
_CONTRADICTED = 4.0  # Above this many times its squared standard errors, a squared distance contradicts a sampler.
_AGREEMENT = 4.0
# Errors of short single-variable sampling over its standard errors, if its chains have mixed and if they have not. By
# `benchmarks.coverage`, tuning seeds.
_MIXED = 1.25
_UNMIXED = 1.5
# The factor on the error of ln Z if it comes from BP without a fixed point. By `benchmarks.coverage`, tuning seeds.
_UNSETTLED_LOG_Z = 3.0
_STUCK = 1.2  # R-hat of single-variable sampling above which its draws tell nothing about other modes.


@dataclass(frozen=True, eq=False)
class LadderAnswer:
    """A solver that has run, its answer and its time."""

    solver: Solver
    estimate: Estimate
    seconds: float

    def __str__(self) -> str:
        return f"{self.solver.name} {self.seconds:.2g} s"

    @property
    def is_stuck(self) -> bool:
        """Whether the chains of single-variable sampling are too far apart to judge other answers."""
        return self.solver.name == "gibbs" and _r_hat(self) > _STUCK

    @property
    def is_empty(self) -> bool:
        """Whether the run ended without an answer, as a run does that was cut off because a kernel was missing."""
        found = self.estimate
        return all(part is None for part in (found.marginals, found.log_z, found.lower_bound, found.upper_bound))


def best_marginals(answers: Sequence[LadderAnswer]) -> tuple[Estimate, str, str]:
    """Return the marginals with the smallest error, the text form of their solver, and a sentence about the error.

    Let s be the mean of a sampler, with squared standard error S averaged over all entries. Let q be another answer at
    a mean squared distance D from s. As s is right on average, D - S estimates the squared error Q of q. The mix
    (Q s + S q) / (Q + S) has the squared error QS / (Q + S), which is less than both. If BP has settled and D is about
    S, the squared distance of q from the other answers estimates Q better than a short run of a sampler.
    """
    usable = [a for a in answers if a.estimate.marginals is not None]
    if not usable:
        return answers[-1].estimate, str(answers[-1].solver), ""
    log_z = _log_z(answers)[0]
    samplers = [a for a in usable if a.estimate.standard_errors is not None]
    free = [a for a in samplers if not a.is_stuck]
    sampled = _together(free or samplers)
    others = [a for a in usable if a.estimate.standard_errors is None]
    if sampled is None:
        best, second = _best_unjudged(others), _second_opinion(others)
        if second is None:
            return replace(best.estimate, **log_z), str(best.solver), ""
        mean = 0.5 * (_values(best.estimate.marginals) + _values(second.estimate.marginals))
        marginals = Marginals(mean, best.estimate.marginals.ptr)  # type: ignore[union-attr]
        return replace(best.estimate, **log_z, marginals=marginals), f"{best.solver} and {second.solver}", ""
    s, se = _values(sampled.estimate.marginals), _values(sampled.estimate.standard_errors)
    agree = _r_hat(sampled) < R_HAT_LIMIT
    if sampled.solver.name == "gibbs":
        se = (_MIXED if agree else _UNMIXED) * se
    S = float(np.mean(se**2)) if len(se) else 0.0
    if not others or S == 0.0:
        return replace(sampled.estimate, **log_z), str(sampled.solver), ""
    distance = [float(np.mean((_values(a.estimate.marginals) - s) ** 2)) for a in others]
    best = _best_unjudged(others)
    n = int(np.argmin(distance)) if free else next(k for k, answer in enumerate(others) if answer is best)
    q, Q = others[n], _squared_error(distance[n], S, _LEAST_SHARE if agree else _UNSURE_SHARE)
    if free and distance[n] < _BY_CHANCE * S:  # The sampler does not contradict it.
        Q = min(Q, _AGREEMENT * _disagreement(q, others))
    S = min(S, distance[n])  # The two errors together make up the distance.
    weight = Q / (Q + S) if free else 0.0  # The weight of the sampler. One that is stuck shows the errors alone.
    gap = _values(q.estimate.marginals) - s
    mixed = s + (1.0 - weight) * gap
    errors = np.hypot(weight * se, (1.0 - weight) * errors_by_distance(gap, se))
    ptr = sampled.estimate.marginals.ptr  # type: ignore[union-attr]
    error = math.sqrt(Q * S / (Q + S))
    if log_z["log_z_error"] is None and log_z["log_z"] is not None:
        # The error of ln Z is about the sum of those of all variables, for the solver that ln Z comes from.
        giver = _best_unjudged([a for a in others if a.estimate.log_z is not None] or [q])
        squared = float(np.mean((_values(giver.estimate.marginals) - mixed) ** 2)) + error**2
        share = LOG_Z_SHARE if giver.estimate.status is Status.CONVERGED else _UNSETTLED_LOG_Z * LOG_Z_SHARE
        log_z["log_z_error"] = share * (len(ptr) - 1) * math.sqrt(squared)
    elif log_z["log_z_error"] is not None:
        log_z["log_z_error"] = max(log_z["log_z_error"], _contradiction(usable, mixed))
    if None not in log_z.values():  # Bounds are proven, so that no error is larger than their distance.
        log_z["log_z_error"] = min(log_z["log_z_error"], log_z["upper_bound"] - log_z["lower_bound"])
    answer = replace(
        sampled.estimate if weight >= 0.5 else q.estimate,
        **log_z,
        marginals=Marginals(mixed, ptr),
        # The sampler's error is 0 for states that are known to be impossible, or the only possible ones. A marginal of
        # exactly 0 or 1 by rounding is not known to be certain.
        standard_errors=Marginals(np.where(se > 0.0, errors, 0.0), ptr),
        stats={**q.estimate.stats, **sampled.estimate.stats, "error_estimate": error},
    )
    said = (
        f"The root mean square error of the marginals is about {error:.2g}: {math.sqrt(S):.2g} for the sampler alone, "
        f"{math.sqrt(Q):.2g} for {q.solver.name} alone."
    )
    return answer, _mixed_name(weight, sampled, q), said


def best_log_z(answers: Sequence[LadderAnswer]) -> tuple[Estimate, str, str]:
    """Return the estimate of ln Z with the smallest error, the text form of its solver, and a sentence about the error.

    Samplers are pooled by their errors and judge the others as in `best_marginals`. The estimate stays within the
    certified bounds of all answers.
    """
    found, best, name, said = _log_z(answers)
    return replace(best.estimate, marginals=None, **found), name, said


def _log_z(answers: Sequence[LadderAnswer]) -> tuple[dict[str, Any], LadderAnswer, str, str]:
    """Return ln Z, its error and its bounds as fields of an estimate, the best answer, its name, and a sentence."""
    lower = max((a.estimate.lower_bound for a in answers if a.estimate.lower_bound is not None), default=None)
    upper = min((a.estimate.upper_bound for a in answers if a.estimate.upper_bound is not None), default=None)
    bounds: dict[str, Any] = {"lower_bound": lower, "upper_bound": upper}
    usable = [a for a in answers if a.estimate.log_z is not None]
    if not usable:
        return {"log_z": None, "log_z_error": None, **bounds}, answers[-1], str(answers[-1].solver), ""
    samplers = [a for a in usable if a.estimate.log_z_error is not None]
    best = _best_unjudged(usable)
    log_z, error, name = _number(best.estimate.log_z), best.estimate.log_z_error, str(best.solver)
    if samplers:
        best = min(samplers, key=lambda a: _number(a.estimate.log_z_error))
        s, S = _pooled(samplers)
        log_z, error, name = s, math.sqrt(S), str(best.solver)
    others = [a for a in usable if a.estimate.log_z_error is None]
    if samplers and others:
        q = min(others, key=lambda a: abs(_number(a.estimate.log_z) - s))
        # A single number may be close by chance: its error is never taken to be below that of the sampler.
        D = (_number(q.estimate.log_z) - s) ** 2
        mixed = float(best.estimate.stats.get("max_r_hat", 1.0)) < _NEARLY_MIXED
        if mixed and S > _MEASURED_LOG_Z**2:  # Their distance then tells more about both.
            S = max(_LEAST_LOG_Z**2, min(S, D))
        Q = max(_squared_error(D, S, _UNSURE_SHARE), S)
        weight = Q / (Q + S)
        log_z = weight * s + (1.0 - weight) * _number(q.estimate.log_z)
        # The nearest of several answers was taken, so that its error is not independent of that of the sampler.
        one, two = weight * math.sqrt(S), (1.0 - weight) * math.sqrt(max(Q, D))
        error = math.sqrt(one**2 + two**2 + 2.0 * _CORRELATION * one * two)
        name = _mixed_name(weight, best, q)
    if error is not None and lower is not None and upper is not None:
        error = min(error, upper - lower)
    inside = min(max(log_z, -math.inf if lower is None else lower), math.inf if upper is None else upper)
    said = "" if lower is None or upper is None else f"ln Z is proven to be within {upper - lower:.3g}."
    if error is not None:
        said = f"The standard error of ln Z is about {error:.2g}. {said}".strip()
    return {"log_z": inside, "log_z_error": error, **bounds}, best, name, said


def _pooled(samplers: Sequence[LadderAnswer]) -> tuple[float, float]:
    """Return ln Z from independent samplers, each weighted by one over its squared error, and the squared error."""
    value = np.array([_number(a.estimate.log_z) for a in samplers])
    weight = 1.0 / np.maximum([_number(a.estimate.log_z_error) for a in samplers], 1e-9) ** 2
    mean = float(weight @ value / weight.sum())
    spread = float(weight @ (value - mean) ** 2 / weight.sum()) / len(value)  # beyond their errors
    return mean, max(1.0 / float(weight.sum()), spread)


def _squared_error(distance: float, sampled: float, least: float) -> float:
    """Return the squared error of an answer, from its squared distance to a sampler with a known squared error.

    Args:
        distance: the mean squared distance of the two.
        sampled: the squared error of the sampler.
        least: the least share of the distance that counts as the answer's error.
    """
    return max(distance - sampled, least * distance, 1e-18)


def _together(samplers: Sequence[LadderAnswer]) -> LadderAnswer | None:
    """Return several samplers as one, each weighted by one over its squared error; None for an empty list.

    Single-variable sampling that has mixed worse than others is left out: its standard errors are then too small.
    """
    least = min((_r_hat(a) for a in samplers if a.solver.name != "gibbs"), default=math.inf)
    samplers = [a for a in samplers if a.solver.name != "gibbs" or _r_hat(a) <= max(R_HAT_LIMIT, least)]
    if len(samplers) < 2:
        return samplers[0] if samplers else None
    errors = np.stack([_values(a.estimate.standard_errors) for a in samplers])
    weight = 1.0 / np.maximum(np.mean(errors**2, axis=1), 1e-18)
    weight /= weight.sum()
    values = weight @ np.stack([_values(a.estimate.marginals) for a in samplers])
    best = samplers[int(np.argmax(weight))]
    ptr = best.estimate.marginals.ptr  # type: ignore[union-attr]
    together = np.sqrt((weight**2) @ errors**2)
    estimate = replace(best.estimate, marginals=Marginals(values, ptr), standard_errors=Marginals(together, ptr))
    return LadderAnswer(best.solver, estimate, best.seconds)


def _contradiction(answers: Sequence[LadderAnswer], mixed: FloatArray) -> float:
    """Return the error of ln Z of a sampler whose marginals the best marginals contradict; 0 if they do not.

    Such a sampler has missed the likeliest states, and its own error does not show it.
    """
    givers = [a for a in answers if a.estimate.log_z_error is not None and a.estimate.standard_errors is not None]
    if not givers:
        return 0.0
    giver = min(givers, key=lambda a: _number(a.estimate.log_z_error)).estimate
    squared = float(np.mean((_values(giver.marginals) - mixed) ** 2))
    own = float(np.mean(_values(giver.standard_errors) ** 2))
    variables = len(giver.marginals.ptr) - 1  # type: ignore[union-attr]
    return LOG_Z_SHARE * variables * math.sqrt(squared) if squared > _CONTRADICTED * own else 0.0


def _disagreement(answer: LadderAnswer, others: Sequence[LadderAnswer]) -> float:
    """Return the mean squared distance of an answer from the nearest other one, if BP is among them and has settled."""
    if not _is_settled(others):
        return math.inf
    own = _values(answer.estimate.marginals)
    rest = [_values(a.estimate.marginals) for a in others if a is not answer]
    return min((max(1e-18, float(np.mean((own - values) ** 2))) for values in rest), default=math.inf)


def _r_hat(answer: LadderAnswer) -> float:
    """Return the largest R-hat of the chains of a sampler; 1 for a sampler without chains."""
    return float(answer.estimate.stats.get("max_r_hat", 1.0))


def _mixed_name(weight: float, sampled: LadderAnswer, other: LadderAnswer) -> str:
    if weight > 0.98:
        return str(sampled.solver)
    return str(other.solver) if weight < 0.02 else f"{sampled.solver} and {other.solver}"


def _values(marginals: Marginals | None) -> FloatArray:
    assert marginals is not None
    return marginals.values


def _number(value: float | None) -> float:
    assert value is not None
    return value


def _is_settled(answers: Sequence[LadderAnswer]) -> bool:
    """Return whether BP is one of some answers and has settled."""
    return any(a.solver.name == "bp" and a.estimate.status is Status.CONVERGED for a in answers)


def _second_opinion(answers: Sequence[LadderAnswer]) -> LadderAnswer | None:
    """Return the answer of regions if it should be averaged with that of the network.

    Where BP has no fixed point, regions are better than the network on diagnosis and linkage and worse on frustrated
    grids, and nothing shows which. The KL of a mean is at most the mean of both.
    """
    finite = [a for a in answers if a.estimate.status is not Status.NON_FINITE]
    if _is_settled(answers) or not {"fe-net", "regions"} <= {a.solver.name for a in finite}:
        return None
    return next(a for a in reversed(finite) if a.solver.name == "regions")


def _best_unjudged(answers: Sequence[LadderAnswer]) -> LadderAnswer:
    """Return the best of some answers that no sampler has judged: finite answers first, then by the method.

    Regions correct a fixed point of BP. Where BP has none, as on frustrated grids, the network is better.
    """
    settled = _is_settled(answers)
    order = ("mini-buckets", "bp", *(("fe-net", "regions") if settled else ("regions", "fe-net")), "gibbs", "blocks")

    def trust(answer: LadderAnswer) -> tuple[bool, int]:
        finite = answer.estimate.status is not Status.NON_FINITE
        return finite, order.index(answer.solver.name) if answer.solver.name in order else -1

    return max(answers, key=trust)
