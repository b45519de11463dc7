"""The result of decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.errors import ModelError, OptionError
from equifactor.decoding.given_arrays import read_array
from equifactor.decoding.iteration_spread import spread_of_shots, spread_text
from equifactor.decoding.post_selection import PostSelection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import BoolArray, FloatArray


class _FailureCurve(NamedTuple):
    """The probability of a failure by the gap: a logistic function, as in a comparison of two sets of errors.

    A share of the shots falls more slowly, because likelier errors may not have been found.
    """

    slope: float
    tail: float  # the share of shots that falls more slowly
    reach: float  # the gap over which the tail falls by a factor e
    unseen: float  # the share of failures if no errors with other observables were found
    crowd: float = 0.0  # observables count as their number to this power, because all other flips compete


# A gap between sums over all errors is the log ratio of probabilities. The other curves are fitted to the default
# settings, on the circuits that docs/decoding.md names. `optimal` uses the curve of `pooled`.
_CURVES = {
    "class": _FailureCurve(1.0, 0.0, 1.0, 0.0),
    "search": _FailureCurve(1.0, 0.01, 10.0, 0.0005, 0.27),
    "pooled": _FailureCurve(0.85, 0.05, 10.0, 0.0022),
}


@dataclass(frozen=True, eq=False)
class DecodingResult:
    """The answers for N shots.

    Attributes:
        flips: [N, L] the observables that the errors found flip.
        converged: [N] whether the errors found explain the shot.
        iterations: [N] the number of iterations of belief propagation, over all legs.
        weight: [N] the sum of ln (1-p)/p over the merged errors found; a smaller sum is more likely. Errors that flip
            the same detectors and observables are merged, and p is the probability that an odd number of them happens.
            Merged errors that are certain, or flip no detector, do not count. The method `class` states the weight of
            the sum over all errors.
        corrections: [N, E] the errors found, or None if they were not asked for. They are the likeliest set of errors
            that makes up the merged errors found.
        decoded: [N] False for shots that had not begun at Ctrl-C or the time limit, which are the last shots, and for
            undecided shots.
        undecided: [N] shots that had begun before the time limit and were not finished soon after it. They are harder
            than the others, so that a rate without them would be too low.
        interrupted: whether the run was ended by Ctrl-C.
        proven: [N] whether the errors found explain the shot and no other set of merged errors that explains it has a
            smaller weight; None if the method does not prove anything.
        seconds: the duration of decoding, without the time that loading compiled code takes.
        method: the text form of the method.
        gap: [N] the difference between the weight of the lightest errors found that flip other observables and the
            weight of the errors found: the log ratio of their probabilities. It is less if few legs met the syndrome,
            infinite if no such errors were found, and 0 if the errors found do not explain the shot. `search` compares
            the sums over all errors found that flip the same observables, and `class` the sums over all errors. None if
            the method does not state it.
    """

    flips: BoolArray
    converged: BoolArray
    iterations: NDArray[np.int32]
    weight: FloatArray
    corrections: NDArray[np.uint8] | None
    decoded: BoolArray
    undecided: BoolArray
    interrupted: bool
    proven: BoolArray | None
    seconds: float
    method: str
    gap: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.converged)

    def __repr__(self) -> str:
        return f"DecodingResult({self})"

    def __str__(self) -> str:
        done = int(self.decoded.sum())
        undecided = f", {self.undecided.sum()} undecided" if self.undecided.any() else ""
        if not done:
            return f"0 of {len(self)} shots{undecided} by {self.method}"
        speed = done / self.seconds if self.seconds else float("inf")
        proven = "" if self.proven is None else f", {self.proven.sum() / done:.2%} proven"
        shares = f"{self.converged.sum() / done:.2%} converged{proven}"
        seen = self.iterations[self.decoded]
        spread = spread_text(float(seen.mean()), spread_of_shots(seen), 1e3 * self.seconds / done, "shot")
        return f"{done} of {len(self)} shots{undecided}, {shares}, {speed:.4g} shots/s by {self.method}; {spread}"

    def errors(self, flips: BoolArray) -> BoolArray:
        """Return [N] whether the flips found differ from the true flips [N, L] in any observable."""
        true = read_array("The true flips", flips)
        if true.shape != self.flips.shape:
            raise ModelError(f"The true flips must have the shape {self.flips.shape}, found {true.shape}.")
        return np.asarray((self.flips != true).any(axis=1))

    def post_selection(self, flips: BoolArray) -> PostSelection:
        """Return the error rate against the share of shots set aside, those of the smallest gaps first.

        Args:
            flips: [N, L] the true flips. Undecided shots count as wrong, with gap 0.
        """
        wrong, gap = self.errors(flips) | self.undecided, self.stated_gaps()
        counts = self.decoded | self.undecided
        return PostSelection.of_shots(np.where(self.undecided, 0.0, gap)[counts], wrong[counts])

    @property
    def failure(self) -> FloatArray:
        """[N] the estimated probability that the flips of each shot are wrong, from its gap.

        The formula is exact for the method `class` and one observable. For other methods it was fitted to shots of some
        codes: see docs/decoding.md.
        """
        gap = self.stated_gaps()
        curve = _CURVES.get(self.method.partition("(")[0], _CURVES["pooled"])
        far = curve.tail * np.exp(-gap / curve.reach)
        others = max(1, self.flips.shape[1]) ** curve.crowd
        near = (1.0 - 2.0 * curve.tail) * others / (others + np.exp(np.minimum(curve.slope * gap, 700.0)))
        return np.maximum(far + near, curve.unseen)

    def stated_gaps(self) -> FloatArray:
        """Return `gap`; raise `OptionError` if the method does not state it."""
        if self.gap is None:
            raise OptionError(f"{self.method} does not state gaps. Use the method pooled.")
        return self.gap
