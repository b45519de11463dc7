"""One answer from the answers of several solvers: a mean, weighted by their errors, and the error of that mean.

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
from equifactor.solvers.regions.sampled_check import errors_by_distance, log_z_error_of, squared_error_of, variation_of
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.solving.solver import Solver

# The least share of its squared distance from a sampler that counts as an answer's squared error, for the weights of
# the mean. Halved or doubled: error within 15 %. Errors that are stated are more cautious: `squared_error_of`.
_LEAST_SHARE = 0.1
# The least share of its distance from a sampler that counts as the error of ln Z. Halved or doubled: error within 10 %.
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
# A squared distance of up to this many times the squared standard error of a sampler can be chance.
_BY_CHANCE = 1.5
# A predicted error of the network, which 10 % of the variables exceed, over its standard error if it is normal.
_NINETY_PERCENT = 1.645
# The factor on the errors of single-variable sampling between the R-hats `_MIXED` and `_APART`: chains that nearly
# agree may all miss a mode, or meet it too rarely. With 1.3, and 1.1 for lower R-hats, two standard errors cover 99.2
# to 100 % of marginals of three kinds of graphs, now 94.8 to 99.1 % (`benchmarks.coverage`, seeds 110000 to 110019).
_CAUTION = 1.1
_MIXED = 1.01  # The usual limit of R-hat for chains that have mixed.
# The Bethe ln Z errs by this many times what its marginals suggest: 2.4 times on Potts models of 20 variables, and less
# than half elsewhere (`benchmarks.coverage`).
_BETHE = 2.5
# The factor on the error of ln Z of blocks, which has time for few draws. With 1, two standard errors cover 93 %
# of ln Z on 284 graphs with zeros (`benchmarks.coverage`).
_FEW_DRAWS = 1.15
# The error of ln Z of BP without a fixed point, over the product of the error of its marginals and `log_range`. By
# `benchmarks.coverage`, tuning seeds.
_UNSETTLED = 0.15
# The error of marginals, in total variation, above which ln Z of the same method is not known: with all pairs of spins
# BP then errs by up to 70, and on Potts models by up to 6. By `benchmarks.coverage`, tuning seeds.
_FAR_OFF = 0.1
# Above this many times its squared standard errors, a squared distance contradicts a sampler. By `benchmarks.coverage`.
_CONTRADICTED = 4.0
STUCK = 1.2  # R-hat of single-variable sampling above which its errors and those of other answers are not independent.
# R-hat above which chains of single-variable sampling are in different modes. By `benchmarks.front`, even places.
_APART = 3.0
# The factor on the error of a mean with chains that are that far apart: each of the two errors is cautious. With 1, two
# standard errors cover 99.9 % of marginals on grids with strong couplings (`benchmarks.coverage`, tuning seeds).
_APART_ERRORS = 0.6


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
        return self.solver.name == "gibbs" and _r_hat(self) > STUCK

    def r_hat_after(self, seconds: float) -> float:
        """The R-hat to expect of a run of `seconds`: R-hat^2 - 1 falls with the length of chains."""
        return math.sqrt(1.0 + (_r_hat(self) ** 2 - 1.0) * self.seconds / max(seconds, 1e-9))

    @property
    def squares(self) -> FloatArray:
        """[X] the squared standard errors of a sampler; empty without marginals."""
        errors = self.estimate.standard_errors
        return np.zeros(0) if errors is None else np.asarray(errors.values**2)

    @property
    def merit(self) -> float:
        """The mean squared standard error of a sampler, times its seconds: less is better."""
        return float(np.mean(self.squares)) * self.seconds if len(self.squares) else math.inf

    @property
    def is_empty(self) -> bool:
        """Whether the run ended without an answer, as a run does that was cut off because a kernel was missing."""
        found = self.estimate
        return all(part is None for part in (found.marginals, found.log_z, found.lower_bound, found.upper_bound))


def best_marginals(answers: Sequence[LadderAnswer], log_range: float = math.inf) -> tuple[Estimate, str, str]:
    """Return the marginals with the smallest error, the text form of their solver, and a sentence about the error.

    Let s be the mean of the samplers, with squared standard error S averaged over all entries. Let q be the nearest
    other answer. Its mean squared distance from s shows its squared error Q, as s is right on average. The mix
    (Q s + S q) / (Q + S) has the squared error QS / (Q + S), which is less than both. Without a sampler the errors are
    those that the network predicts.

    Args:
        answers: the answers.
        log_range: see `log_range` in `crude_bounds.py`.
    """
    usable = _without_raw_networks([a for a in answers if a.estimate.marginals is not None])
    if not usable:
        return answers[-1].estimate, str(answers[-1].solver), ""
    samplers = [a for a in usable if a.estimate.standard_errors is not None]
    others = [a for a in usable if a.estimate.standard_errors is None]
    if not samplers:
        return _unjudged(others, _log_z(answers)[0])
    stuck = all(a.is_stuck for a in samplers)
    sampled = _together(samplers)
    s, se = _values(sampled.estimate.marginals), _values(sampled.estimate.standard_errors)
    S = float(np.mean(se**2)) if len(se) else 0.0
    if not others or S == 0.0:
        return replace(sampled.estimate, **_log_z(answers)[0]), str(sampled.solver), ""
    others = [a for a in others if a.estimate.status is not Status.NON_FINITE] or others
    distance = [float(np.mean((_values(a.estimate.marginals) - s) ** 2)) for a in others]
    q = _best_unjudged(others) if stuck else others[int(np.argmin(distance))]
    gap = _values(q.estimate.marginals) - s
    D = float(np.mean(gap**2))
    own = _likely_share(sampled) * S
    Q, likely = squared_error_of(D, S), max(D - own, _LEAST_SHARE * D)
    if not stuck and D < _BY_CHANCE * S:  # The sampler does not contradict it.
        Q, likely = (min(square, _predicted_square(q, others)) for square in (Q, likely))
    # The weight of the sampler. The two errors together make up the distance.
    weight = likely / (likely + min(own, D))
    mixed = s + (1.0 - weight) * gap
    # The error of a sampler is 0 for states that are known to be impossible, or the only possible ones. A marginal of
    # exactly 0 or 1 by rounding is not known to be certain.
    # Errors of a sampler that is stuck are not independent of those of the other answer, so a mean does not lower them.
    apart = _APART_ERRORS if _r_hat(sampled) > _APART else 1.0
    one, two = (apart, apart) if stuck else (weight, 1.0 - weight)
    errors = np.where(se > 0.0, np.hypot(one * se, two * errors_by_distance(gap, se, Q)), 0.0)
    ptr = sampled.estimate.marginals.ptr  # type: ignore[union-attr]
    error = float(np.sqrt(np.mean(errors**2)))
    log_z = _log_z(_with_log_z_errors(answers, mixed, errors, log_range))[0]
    answer = replace(
        sampled.estimate if weight >= 0.5 else q.estimate,
        **log_z,
        marginals=Marginals(mixed, ptr),
        standard_errors=Marginals(errors, ptr),
        marginal_errors=None,
        message=sampled.estimate.message if weight >= 0.5 else "",  # The error is that of the mean.
        stats={**q.estimate.stats, **sampled.estimate.stats, "error_estimate": error},
    )
    said = (
        f"The root mean square error of the marginals is about {error:.2g}: {math.sqrt(S):.2g} for the sampler alone, "
        f"{math.sqrt(Q):.2g} for {q.solver.name} alone."
    )
    return answer, _mixed_name(weight, sampled, q), said


def _unjudged(others: Sequence[LadderAnswer], log_z: dict[str, Any]) -> tuple[Estimate, str, str]:
    """Return marginals that no sampler has judged, the text form of their solver, and a sentence about the error.

    If the network predicts its errors, those of another answer are the same plus its distance from the network.
    """
    from equifactor.solvers.learned.network_trust import told_errors

    best = _best_unjudged(others)
    together = [best, *_other_opinions(best, others)]
    values = np.mean([_values(a.estimate.marginals) for a in together], axis=0)
    name = " and ".join(str(a.solver) for a in together)
    ptr = best.estimate.marginals.ptr  # type: ignore[union-attr]
    network = next((a.estimate for a in others if a.estimate.marginal_errors is not None), None)
    found = replace(best.estimate, **log_z, marginals=Marginals(values, ptr))
    if network is None:
        return found, name, "The errors of the marginals are not known, because no sampler was run."
    predicted = _values(network.marginal_errors)
    apart = 0.5 * np.add.reduceat(np.abs(values - _values(network.marginals)), ptr[:-1])
    errors = np.where(predicted > 0.0, np.minimum(predicted + np.repeat(apart, np.diff(ptr)), 1.0), 0.0)
    total = Marginals(errors, ptr)
    return replace(found, marginal_errors=total, message=""), name, told_errors(total)


def _predicted_square(answer: LadderAnswer, others: Sequence[LadderAnswer]) -> float:
    """Return the squared error of an answer by the errors that the network predicts for its own; inf without it."""
    for network in (a.estimate for a in others if a.estimate.marginal_errors is not None):
        standard = _values(network.marginal_errors) / _NINETY_PERCENT
        apart = _values(answer.estimate.marginals) - _values(network.marginals)
        return float(np.mean(standard**2) + np.mean(apart**2))
    return math.inf


def best_log_z(answers: Sequence[LadderAnswer]) -> tuple[Estimate, str, str]:
    """Return the estimate of ln Z with the smallest error, the text form of its solver, and a sentence about the error.

    Samplers are pooled by their errors and judge the others as in `best_marginals`. The estimate stays within the
    certified bounds of all answers.
    """
    found, best, name, said = _log_z(answers)
    return replace(best.estimate, marginals=None, **found), name, said


def _with_log_z_errors(
    answers: Sequence[LadderAnswer], mixed: FloatArray, errors: FloatArray, log_range: float
) -> list[LadderAnswer]:
    """Return the answers with errors of ln Z, which the distances of their marginals from the best ones suggest.

    Of the answers without an error of their own only the best one keeps ln Z. A sampler has its own error, unless the
    best marginals contradict it: then it has missed likely states, and its own error does not show it.
    """
    kept, suggested = list(answers), {}
    for n, answer in enumerate(answers):
        e = answer.estimate
        if e.log_z is None or e.marginals is None:
            continue
        gap = e.marginals.values - mixed
        if e.log_z_error is None:
            off = np.hypot(gap, errors)
            error = (_BETHE if answer.solver.name == "bp" else 1.0) * log_z_error_of(off, e.marginals.ptr)
            if variation_of(off, e.marginals.ptr) > _FAR_OFF:
                error = math.inf
            if answer.solver.name == "bp" and e.status is not Status.CONVERGED:
                error = max(error, _UNSETTLED * log_range * float(np.sqrt(np.mean(off**2))))
            suggested[n] = error
            kept[n] = replace(answer, estimate=replace(e, log_z=None))
        elif e.standard_errors is not None and np.mean(gap**2) > _CONTRADICTED * np.mean(e.standard_errors.values**2):
            error = max(e.log_z_error, log_z_error_of(gap, e.marginals.ptr))
            kept[n] = replace(answer, estimate=replace(e, log_z_error=error))
    best = min(suggested, key=lambda n: suggested[n], default=-1)
    if best >= 0 and math.isfinite(suggested[best]):
        kept[best] = replace(answers[best], estimate=replace(answers[best].estimate, log_z_error=suggested[best]))
    elif best >= 0 and not any(a.estimate.log_z is not None for a in kept):
        kept[best] = answers[best]  # Its error is not known.
    return kept


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
        Q = max(D - S, _UNSURE_SHARE * D, S)
        weight = Q / (Q + S)
        log_z = weight * s + (1.0 - weight) * _number(q.estimate.log_z)
        # The nearest of several answers was taken, so that its error is not independent of that of the sampler.
        one, two = weight * math.sqrt(S), (1.0 - weight) * math.sqrt(max(Q, D))
        error = math.sqrt(one**2 + two**2 + 2.0 * _CORRELATION * one * two)
        name = _mixed_name(weight, best, q)
    if lower is not None and upper is not None and (error is not None or lower == upper):
        error = min(math.inf if error is None else error, upper - lower)
    inside = min(max(log_z, -math.inf if lower is None else lower), math.inf if upper is None else upper)
    said = "" if lower is None or upper is None else f"ln Z is proven to be within {upper - lower:.3g}."
    if error is not None:
        said = f"The standard error of ln Z is about {error:.2g}. {said}".strip()
    return {"log_z": inside, "log_z_error": error, **bounds}, best, name, said


def _pooled(samplers: Sequence[LadderAnswer]) -> tuple[float, float]:
    """Return ln Z from independent answers with errors, and its squared error."""
    values = np.array([[_number(a.estimate.log_z)] for a in samplers])
    factors = [_FEW_DRAWS if a.solver.name == "blocks" else 1.0 for a in samplers]
    errors = np.array([[f * _number(a.estimate.log_z_error)] for f, a in zip(factors, samplers, strict=True)])
    weight, beyond = _weights(values, errors)
    return float(weight @ values[:, 0]), beyond * float(weight**2 @ errors[:, 0] ** 2)


def _weights(values: FloatArray, errors: FloatArray) -> tuple[FloatArray, float]:
    """Return the weights of independent answers [K, X], and the factor on squared errors if they contradict each other.

    A weight is one over a squared error. The factor is chi-square over its degrees of freedom, at least 1.
    """
    precision = 1.0 / np.maximum(np.mean(errors**2, axis=1), 1e-18)
    weight = precision / precision.sum()
    spread = np.mean((values - weight @ values) ** 2, axis=1)
    return weight, max(1.0, float(precision @ spread) / max(1, len(values) - 1))


def _together(samplers: Sequence[LadderAnswer]) -> LadderAnswer:
    """Return several samplers as one, each weighted by one over its squared error."""
    factors = [_caution(a) for a in samplers]
    errors = np.stack([f * _values(a.estimate.standard_errors) for f, a in zip(factors, samplers, strict=True)])
    values = np.stack([_values(a.estimate.marginals) for a in samplers])
    weight, beyond = _weights(values, errors)
    best = samplers[int(np.argmax(weight))]
    ptr = best.estimate.marginals.ptr  # type: ignore[union-attr]
    together = Marginals(np.sqrt(beyond * (weight**2 @ errors**2)), ptr)
    estimate = replace(best.estimate, marginals=Marginals(weight @ values, ptr), standard_errors=together)
    return LadderAnswer(best.solver, estimate, best.seconds)


def _caution(answer: LadderAnswer) -> float:
    """Return the factor on the stated errors of a sampler."""
    return _CAUTION if answer.solver.name == "gibbs" and _MIXED < _r_hat(answer) <= _APART else 1.0


def _likely_share(answer: LadderAnswer) -> float:
    """Return the squared error of a sampler to expect over the stated one, for the weights of the mean.

    Stated errors are cautious: they cover modes that no chain has met, and chains that have not mixed. Only chains of
    single variables that are in different modes err by as much.
    """
    if answer.solver.name == "gibbs" and _r_hat(answer) > _APART:
        return 1.0
    return float(answer.estimate.stats.get("likely_share", 1.0))


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


def _other_opinions(best: LadderAnswer, answers: Sequence[LadderAnswer]) -> list[LadderAnswer]:
    """Return the answers that are averaged with the best one: none where BP has settled.

    Where BP has no fixed point, regions are better than the network on diagnosis and linkage and worse on frustrated
    grids, and nothing shows which. Without all steps of a network the mean is with BP as well. The KL of a mean is at
    most the mean of the KLs.
    """
    if _is_settled(answers):
        return []
    finite = [a for a in answers if a.estimate.status is not Status.NON_FINITE and a.solver.name != best.solver.name]
    networks = [a.estimate for a in answers if a.solver.name == "fe-net"]
    complete = any(e.marginal_errors is not None or e.status is not Status.TIME_LIMIT for e in networks)
    wanted = {"regions"} if complete else {"regions", "bp"}
    return [a for a in finite if a.solver.name in wanted]


def _without_raw_networks(answers: list[LadderAnswer]) -> list[LadderAnswer]:
    """Return the answers without those of a network that had no time to compare itself with BP, if BP has settled.

    BP that settles is accurate where couplings are weak: on a Potts grid it has a KL of 3e-6, and the network .003.
    """
    if not _is_settled(answers):
        return answers
    return [a for a in answers if a.solver.name != "fe-net" or a.estimate.marginal_errors is not None]


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
