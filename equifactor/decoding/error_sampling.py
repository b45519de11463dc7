"""Shots drawn from an error model, and how often a decoder fails on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.generators.argument_checks import whole
from equifactor.kernels.pointers import picked

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.decoding.decoding_result import DecodingResult
    from equifactor.decoding.error_model import ErrorModel

BLOCK = 1024  # The number of shots drawn together, so that shot n does not depend on their total. Chosen by hand.


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
        inside = np.clip(p, 1e-300, 1.0 - 1e-16)
        self.ratio = np.log1p(-inside) - np.log(inside)
        self._block: tuple[int, BoolArray, BoolArray, FloatArray] | None = None

    def sample(self, first: int, last: int) -> tuple[BoolArray, BoolArray]:
        """Return the detectors [n, D] and observables [n, L] of the shots from first to last - 1."""
        return self.sample_weighed(first, last)[:2]

    def sample_weighed(self, first: int, last: int) -> tuple[BoolArray, BoolArray, FloatArray]:
        """Return the same as `sample`, and the weights [n] of the errors that happened: sums of ln (1-p)/p."""
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
        total = self.bounds[-1] if len(self.bounds) else 0.0
        hits = rng.poisson(BLOCK * total)
        error = np.searchsorted(self.bounds, rng.random(hits) * total, side="right")
        error = np.minimum(error, max(self.model.num_errors - 1, 0))  # Rounding may reach the end.
        hit = np.unique(rng.integers(BLOCK, size=hits) * self.model.num_errors + error)
        shots, errors = np.divmod(hit, max(self.model.num_errors, 1))
        shots = np.concatenate((shots, np.repeat(np.arange(BLOCK), len(self.certain))))
        errors = np.concatenate((errors, np.tile(self.certain, BLOCK)))
        m = self.model
        return (
            _odd_sums(shots, errors, m.detector_ptr, m.detectors, m.num_detectors),
            _odd_sums(shots, errors, m.observable_ptr, m.observables, m.num_observables),
            np.bincount(shots, self.ratio[errors], minlength=BLOCK).astype(np.float64),
        )


def _odd_sums(shots: IntArray, errors: IntArray, ptr: IntArray, targets: IntArray, width: int) -> BoolArray:
    """Return [BLOCK, width] the targets that the errors of each shot flip an odd number of times."""
    own, places = picked(ptr, errors)
    flat = np.repeat(shots, np.diff(own)) * width + targets[places]
    return np.bincount(flat, minlength=BLOCK * width).reshape(BLOCK, width) % 2 == 1


@dataclass(frozen=True)
class LogicalErrorRate:
    """How often a decoder was wrong about an observable."""

    shots: int
    errors: int
    result: DecodingResult

    @property
    def rate(self) -> float:
        """Errors per shot."""
        return self.errors / self.shots if self.shots else math.nan

    @property
    def error(self) -> float:
        """The binomial standard error of the rate."""
        return math.sqrt(self.rate * (1.0 - self.rate) / self.shots) if self.shots else math.nan

    def __str__(self) -> str:
        if not self.shots:
            return "no shot was decoded"
        return f"logical error rate {binomial_text(self.errors, self.shots)} ({self.errors} of {self.shots} shots)"


def binomial_text(errors: int, shots: int) -> str:
    """Return a rate with its binomial standard error. Without errors, return the upper end of its 95 % interval."""
    rate = errors / shots
    return (
        f"{rate:.3g} +- {math.sqrt(rate * (1.0 - rate) / shots):.2g}"
        if errors
        else f"below {min(1.0, 3.0 / shots):.2g} (95 %)"
    )
