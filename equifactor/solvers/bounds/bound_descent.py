"""Descent of a weighted bound by limited-memory BFGS, over the shifts and the logarithms of the weights together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.kernels.quasi_newton import CurvaturePairs

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray
    from equifactor.solvers.bounds.weighted_bound import WeightedBound

# The number of pairs of steps and changes of the gradient that are kept if memory allows. Halved or doubled: gap within
# 15 %.
_PAIRS = 20
PAIR_BYTES = 16.0  # Bytes of a pair for each number: a step and a change of the gradient in float64.
LEAST_PAIRS = 5  # The number of pairs that are kept even if memory is short. Halved or doubled: gap within 20 %.
_SUFFICIENT = 1e-4  # A step must lower the bound by this share of what its slope promises (Armijo's rule).
_LONGEST = 5.0  # No shift and no log weight moves further than this in one step. Halved or doubled: gap within 15 %.
# The descent has settled when it would need a step shorter than this share: about the root of the rounding error of
# float64.
_SHORTEST = 1e-8
# The log weights are clipped to [-30, 30], so that weights and their products stay far from overflow and underflow.
_WIDEST = 30.0


class Descent:
    """A run of L-BFGS on one bound. `step` makes one iteration; `best` never rises.

    Args:
        bound: the bound to lower.
        shift: [L] shifts to begin with, if they give a better bound than zero shifts.
        memory: bytes for the pairs that the descent remembers.
    """

    def __init__(self, bound: WeightedBound, shift: FloatArray | None = None, memory: float = np.inf) -> None:
        self.bound = bound
        self.best = np.inf
        self.iterations = 0
        self.settled = False
        self._point = np.zeros(len(bound.shift) + len(bound.weight))
        self._shift = shift
        keep = int(np.clip(memory / (PAIR_BYTES * max(len(self._point), 1)), LEAST_PAIRS, _PAIRS))
        self.bytes = PAIR_BYTES * len(self._point) * keep  # of the pairs
        self._pairs = CurvaturePairs(keep)
        self._slope = np.zeros(0)
        self._reach = np.zeros(0)  # A diagonal guess of the inverse curvature: how far each number may go.
        self._value = np.inf

    def step(self, clock: Clock) -> bool:
        """Make one iteration; return False if the time is over or nothing is left to gain."""
        if not self.iterations:
            return self._start(clock)
        self.iterations += 1
        ahead = self._pairs.direction(self._slope, self._reach)
        promise = float(ahead @ self._slope)
        if promise >= 0.0 and self._pairs:  # Rounding has spoilt the pairs: restart with the gradient alone.
            self._pairs.clear()
            ahead = self._pairs.direction(self._slope, self._reach)
            promise = float(ahead @ self._slope)
        length = min(1.0, _LONGEST / max(float(np.abs(ahead).max(initial=0.0)), 1e-300))
        while True:
            if length < _SHORTEST or promise >= 0.0:
                self.settled = True
                return False
            point = self._point + length * ahead
            value = self._evaluate(point, clock)
            if value is None:
                return False
            if value <= self._value + _SUFFICIENT * length * promise:
                break
            length *= 0.5 if value < self._value + abs(promise) else 0.1
        return self._accept(point, value, clock)

    def _start(self, clock: Clock) -> bool:
        self.iterations = 1
        point = self._point
        value = self._evaluate(point, clock)
        if value is not None and self._shift is not None:
            other = point.copy()
            other[: len(self._shift)] = self._shift
            shifted = self._evaluate(other, clock)
            if shifted is not None and shifted < value:
                point, value = other, shifted
            else:
                value = self._evaluate(point, clock)  # `down` needs the state of the last `up`.
        return value is not None and self._accept(point, value, clock)

    def _evaluate(self, point: FloatArray, clock: Clock) -> float | None:
        count = len(self.bound.shift)
        self.bound.shift[:] = point[:count]
        self.bound.set_weight(np.exp(np.clip(point[count:], -_WIDEST, _WIDEST)))
        value = self.bound.up(clock)
        if value is not None:
            self.best = min(self.best, value)
        return value

    def _accept(self, point: FloatArray, value: float, clock: Clock) -> bool:
        if value == -np.inf or not self.bound.down(clock):
            return False
        slope = self.bound.gradient()
        if len(self._slope):
            self._pairs.remember(point - self._point, slope - self._slope)
        self._point, self._value, self._slope, self._reach = point, value, slope, self.bound.reach()
        return True
