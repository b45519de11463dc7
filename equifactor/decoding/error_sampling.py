"""Shots drawn from an error model, and how often a decoder fails on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.argument_types import checks_fields
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.decoding.post_selection import PostSelection
from equifactor.generators.argument_checks import whole
from equifactor.kernels.pointers import picked

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.decoding.decoding_result import DecodingResult
    from equifactor.decoding.error_model import ErrorModel

_MOST = 2**34  # Bytes of the shots that one call returns. Chosen by hand.
BLOCK = 1024  # The number of shots drawn together, so that shot n does not depend on their total. Chosen by hand.
_CELLS = 4  # Cells of equal width for each error. Chosen by hand.
_STEPS = 3  # Errors of a cell that are passed one by one before a search. Chosen by hand.


class ShotSampler:
    """A sampler of the shots of a model. The same seed gives the same shots, however they are divided into calls."""

    def __init__(self, model: ErrorModel, seed: int = 0) -> None:
        if not hasattr(model, "merged"):
            raise ModelError(f"Expected an ErrorModel, found {brief(model)}.")
        whole("seed", seed, 0)
        self.model, self.seed = model.merged()[0], seed
        p = self.model.priors
        self.certain = np.flatnonzero(p == 1.0)
        self.rate = np.where(p < 1.0, -np.log1p(-np.where(p < 1.0, p, 0.0)), 0.0)
        self.bounds = np.cumsum(self.rate)
        self.total = self.bounds[-1] if len(self.bounds) else 0.0
        # The errors of a number begin in the cell below its own, so that rounding does not matter.
        cells = np.arange(-1, _CELLS * len(self.bounds)) * (self.total / max(1, _CELLS * len(self.bounds)))
        self.first_of_cell = np.searchsorted(self.bounds, cells, side="right")
        inside = np.clip(p, 1e-300, 1.0 - 1e-16)
        self.ratio = np.log1p(-inside) - np.log(inside)
        self._block: tuple[int, BoolArray, BoolArray, FloatArray] | None = None

    def sample(self, first: int, last: int) -> tuple[BoolArray, BoolArray]:
        """Return the detectors [n, D] and observables [n, L] of the shots from first to last - 1."""
        return self.sample_weighed(first, last)[:2]

    def sample_weighed(self, first: int, last: int) -> tuple[BoolArray, BoolArray, FloatArray]:
        """Return the same as `sample`, and the weights [n] of the errors that happened: sums of ln (1-p)/p."""
        first = whole("first", first, 0, 2**53)
        last = whole("last", last, first, first + _MOST // (8 + self.model.num_detectors + self.model.num_observables))
        detectors = np.zeros((last - first, self.model.num_detectors), bool)
        observables = np.zeros((last - first, self.model.num_observables), bool)
        weights = np.zeros(last - first)
        for number in range(first // BLOCK, -(-last // BLOCK)):
            if self._block is None or self._block[0] != number:
                self._block = (number, *self._draw(number))
            begin, end = max(first, number * BLOCK), min(last, (number + 1) * BLOCK)
            for out, drawn in zip((detectors, observables, weights), self._block[1:], strict=True):
                out[begin - first : end - first] = drawn[begin - number * BLOCK : end - number * BLOCK]
        return detectors, observables, weights

    def _draw(self, number: int) -> tuple[BoolArray, BoolArray, FloatArray]:
        """Draw one block of shots.

        Hits fall at random on pairs of a shot and an error. Their rate makes a shot hit an error at least once
        with the probability of the error. So the work grows with the number of errors that happen, not with the number
        that could happen.
        """
        rng = np.random.default_rng([self.seed, number])
        hits = rng.poisson(BLOCK * self.total)
        error = np.minimum(self._errors_at(rng.random(hits)), max(self.model.num_errors - 1, 0))  # Rounding.
        hit = np.sort(rng.integers(BLOCK, size=hits) * self.model.num_errors + error)
        hit = hit[np.diff(hit, prepend=-1) > 0]  # `numpy.unique` takes 20 times as long.
        shots, errors = np.divmod(hit, max(self.model.num_errors, 1))
        shots = np.concatenate((shots, np.repeat(np.arange(BLOCK), len(self.certain))))
        errors = np.concatenate((errors, np.tile(self.certain, BLOCK)))
        m = self.model
        return (
            _odd_sums(shots, errors, m.detector_ptr, m.detectors, m.num_detectors),
            _odd_sums(shots, errors, m.observable_ptr, m.observables, m.num_observables),
            np.bincount(shots, self.ratio[errors], minlength=BLOCK).astype(np.float64),
        )

    def _errors_at(self, shares: FloatArray) -> IntArray:
        """Return what `numpy.searchsorted(bounds, shares * total, "right")` does, from cells of equal width."""
        at = shares * self.total
        error = self.first_of_cell[(shares * (len(self.first_of_cell) - 1)).astype(np.int64)]
        last = len(self.bounds) - 1
        for _ in range(_STEPS):
            error += (self.bounds[np.minimum(error, last)] <= at) & (error <= last)
        left = np.flatnonzero((self.bounds[np.minimum(error, last)] <= at) & (error <= last))
        error[left] = np.searchsorted(self.bounds, at[left], side="right")
        return error


def _odd_sums(shots: IntArray, errors: IntArray, ptr: IntArray, targets: IntArray, width: int) -> BoolArray:
    """Return [BLOCK, width] the targets that the errors of each shot flip an odd number of times."""
    own, places = picked(ptr, errors)
    flat = np.repeat(shots, np.diff(own)) * width + targets[places]
    return (np.bincount(flat, minlength=BLOCK * width) & 1).astype(bool).reshape(BLOCK, width)


@checks_fields("shots", "errors", "result")
@dataclass(frozen=True)
class LogicalErrorRate:
    """How often a decoder was wrong about an observable.

    Attributes:
        shots: the number of shots that count: those that were decoded, and undecided ones.
        errors: the number of shots that were decoded wrongly.
        result: the answers.
        wrong: [N] which of the shots of the answers were decoded wrongly, undecided ones included.
        missed: the number of wrong shots whose true errors are likelier than the errors found. A better decoder would
            decode them rightly. In the other wrong shots the errors found are likelier than the true ones.
    """

    shots: int
    errors: int
    result: DecodingResult
    wrong: BoolArray | None = None
    missed: int | None = None

    @property
    def post_selection(self) -> PostSelection:
        """The rate against the share of shots set aside, if the method states gaps."""
        if self.wrong is None or self.result.gap is None:
            raise OptionError(f"{self.result.method} does not state gaps. Use the method pooled.")
        counts = self.result.decoded | self.result.undecided
        return PostSelection.of_shots(np.where(self.result.undecided, 0.0, self.result.gap)[counts], self.wrong[counts])

    @property
    def undecided(self) -> int:
        """The number of shots that had begun at the time limit and were not finished soon after it."""
        return int(self.result.undecided.sum())

    @property
    def rate(self) -> float:
        """Errors per shot; undecided shots count as errors."""
        return self.bounds[1]

    @property
    def bounds(self) -> tuple[float, float]:
        """Errors per shot if all undecided shots are right, and if all are wrong."""
        if not self.shots:
            return math.nan, math.nan
        return self.errors / self.shots, (self.errors + self.undecided) / self.shots

    @property
    def error(self) -> float:
        """The binomial standard error of the rate."""
        return math.sqrt(self.rate * (1.0 - self.rate) / self.shots) if self.shots else math.nan

    def __str__(self) -> str:
        if not self.shots:
            return "no shot was decoded"
        return f"logical error rate {counted_text(self.errors, self.shots, self.undecided, 'shots')}"


def counted_text(errors: int, shots: int, undecided: int, noun: str) -> str:
    """Return a rate with its standard error and its counts. With undecided shots it is a range: all right to all wrong.

    Args:
        errors: the number of shots that were decoded wrongly.
        shots: the number of shots, undecided ones included.
        undecided: the number of undecided shots.
        noun: `shots` or `words`.
    """
    if not undecided:
        return f"{binomial_text(errors, shots)} ({errors} of {shots} {noun})"
    high = binomial_text(errors + undecided, shots)
    return (
        f"{errors / shots:.3g} to {high} ({errors} of {shots} {noun}, and {undecided} were undecided at the time limit)"
    )


def binomial_text(errors: int, shots: int) -> str:
    """Return a rate with its binomial standard error. Without errors, return the upper end of its 95 % interval."""
    rate = errors / shots
    return (
        f"{rate:.3g} +- {math.sqrt(rate * (1.0 - rate) / shots):.2g}"
        if errors
        else f"below {min(1.0, 3.0 / shots):.2g} (95 %)"
    )
