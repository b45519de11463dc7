"""Shots drawn from an error model, and how often a decoder fails on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.kernels.pointers import picked

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.decoding.decoding_result import DecodingResult
    from equifactor.decoding.error_model import ErrorModel

BLOCK = 1024  # shots that are drawn together; shot n does not depend on how many follow


class ShotSampler:
    """Draws shots of a model; the same seed gives the same shots, in whatever pieces they are asked for."""

    def __init__(self, model: ErrorModel, seed: int = 0) -> None:
        if seed < 0:
            raise OptionError(f"a seed is a whole number of at least 0, found {seed}")
        self.model, self.seed = model.merged()[0], seed
        p = self.model.priors
        self.certain = np.flatnonzero(p == 1.0)
        self.rate = np.where(p < 1.0, -np.log1p(-np.where(p < 1.0, p, 0.0)), 0.0)
        self.bounds = np.cumsum(self.rate)
        inside = np.clip(p, 1e-300, 1.0 - 1e-16)
        self.ratio = np.log1p(-inside) - np.log(inside)
        self._block: tuple[int, BoolArray, BoolArray, FloatArray] | None = None

    def sample(self, first: int, last: int) -> tuple[BoolArray, BoolArray]:
        """Shots first to last - 1: detectors [n, D] and observables [n, L]."""
        return self.sample_weighed(first, last)[:2]

    def sample_weighed(self, first: int, last: int) -> tuple[BoolArray, BoolArray, FloatArray]:
        """The same, and [n] the weights of the errors that happened: sums of ln (1-p)/p."""
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
        """One block of shots.

        Strokes fall at random on pairs of a shot and an error, so many on average that an error is hit at least once
        with its probability: the work grows with what happens, and not with what could.
        """
        rng = np.random.default_rng([self.seed, number])
        total = self.bounds[-1] if len(self.bounds) else 0.0
        strokes = rng.poisson(BLOCK * total)
        error = np.searchsorted(self.bounds, rng.random(strokes) * total, side="right")
        error = np.minimum(error, max(self.model.num_errors - 1, 0))  # rounding may reach the end
        hit = np.unique(rng.integers(BLOCK, size=strokes) * self.model.num_errors + error)
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
    """[BLOCK, width] which targets the errors of each shot flip an odd number of times."""
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
        rate = f"{self.rate:.3g} +- {self.error:.2g}" if self.errors else f"below {3.0 / self.shots:.2g} (95 %)"
        return f"logical error rate {rate} ({self.errors} of {self.shots} shots)"
