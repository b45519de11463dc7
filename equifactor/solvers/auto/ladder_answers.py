"""One answer from the rungs of a ladder: the one that errs least by what the rungs say of each other.

A sampler knows its standard error, so the distance of another answer from it tells that one's error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.status import Status
from equifactor.graph.marginals import Marginals
from equifactor.solvers.sampling.chain_driver import R_HAT_LIMIT
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

_LEAST_SHARE = 0.1  # At least this share of its distance from a sampler is put down to an answer,
_UNSURE = 0.5  # and this one where chains have not mixed, whose error is a guess, or where there is one number only.


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

    Samplers are pooled by their errors and judge the others as in `best_marginals`; nothing leaves the bounds.
    """
    lower = max((r.estimate.lower_bound for r in rungs if r.estimate.lower_bound is not None), default=None)
    upper = min((r.estimate.upper_bound for r in rungs if r.estimate.upper_bound is not None), default=None)
    bounds: dict[str, Any] = {"lower_bound": lower, "upper_bound": upper}
    answers = [r for r in rungs if r.estimate.log_z is not None]
    if not answers:
        return replace(rungs[-1].estimate, **bounds), rungs[-1].spec, ""
    samplers = [r for r in answers if r.estimate.log_z_error is not None]
    best = max(answers, key=_trust)
    log_z, error, name = _number(best.estimate.log_z), best.estimate.log_z_error, best.spec
    if samplers:
        best = min(samplers, key=lambda r: _number(r.estimate.log_z_error))
        s, S = _pooled(samplers)
        log_z, error, name = s, math.sqrt(S), best.spec
    others = [r for r in answers if r.estimate.log_z_error is None]
    if samplers and others:
        q = min(others, key=lambda r: abs(_number(r.estimate.log_z) - s))
        # One number may be close by chance, so that its error is never put far below that of the sampler.
        Q = max(_squared_error((_number(q.estimate.log_z) - s) ** 2, S, _UNSURE), _UNSURE**2 * S)
        weight = Q / (Q + S)
        log_z, error = weight * s + (1.0 - weight) * _number(q.estimate.log_z), math.sqrt(Q * S / (Q + S))
        name = _mixed_name(weight, best, q)
    if error is not None and lower is not None and upper is not None:
        error = min(error, upper - lower)
    inside = min(max(log_z, -math.inf if lower is None else lower), math.inf if upper is None else upper)
    said = "" if lower is None or upper is None else f"ln Z is proven to be within {upper - lower:.3g}."
    if error is not None:
        said = f"Standard error of ln Z about {error:.2g}. {said}".strip()
    return replace(best.estimate, log_z=inside, log_z_error=error, marginals=None, **bounds), name, said


def _pooled(samplers: Sequence[LadderRung]) -> tuple[float, float]:
    """ln Z from independent samplers, each with a weight of one over its squared error, and its own squared error."""
    value = np.array([_number(r.estimate.log_z) for r in samplers])
    weight = 1.0 / np.maximum([_number(r.estimate.log_z_error) for r in samplers], 1e-9) ** 2
    mean = float(weight @ value / weight.sum())
    spread = float(weight @ (value - mean) ** 2 / weight.sum()) / len(value)  # They may differ by more than they say.
    return mean, max(1.0 / float(weight.sum()), spread)


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
