"""Descent of the bound: limited-memory BFGS over shifts and weights together, in which it is convex but for scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray
    from equifactor.solvers.bounds.weighted_bound import WeightedBound

_PAIRS = 20  # of steps and changes of the gradient that are kept, as long as there is memory
_LEAST_PAIRS = 5
_SUFFICIENT = 1e-4  # a step must lower the bound by this share of what its slope promises
_LONGEST = 5.0  # no shift or log weight moves further at once
_SHORTEST = 1e-8  # shorter steps are not tried
_WIDEST = 30.0  # log weights stay within this of each other


class Descent:
    """A run of L-BFGS on one bound. `step` makes one iteration; `best` never rises.

    Args:
        bound: what to lower.
        shift: [L] shifts to begin with where they are better than none.
        memory: bytes for what the descent remembers.
    """

    def __init__(self, bound: WeightedBound, shift: FloatArray | None = None, memory: float = np.inf) -> None:
        self.bound = bound
        self.best = np.inf
        self.iterations = 0
        self.settled = False
        self._point = np.zeros(len(bound.shift) + len(bound.weight))
        self._shift = shift
        self._keep = int(np.clip(memory / (16.0 * max(len(self._point), 1)), _LEAST_PAIRS, _PAIRS))
        self._slope = np.zeros(0)
        self._reach = np.zeros(0)  # how far each number may go for its slope
        self._value = np.inf
        self._pairs: list[tuple[FloatArray, FloatArray, float]] = []

    def step(self, clock: Clock) -> bool:
        """One iteration; False when time was up or nothing is left to gain."""
        if not self.iterations:
            return self._start(clock)
        self.iterations += 1
        ahead = self._direction()
        promise = float(ahead @ self._slope)
        if promise >= 0.0 and self._pairs:  # Rounding has spoiled the pairs: begin anew with the gradient alone.
            self._pairs.clear()
            ahead = self._direction()
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
                value = self._evaluate(point, clock)  # The way down follows the last way up.
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
            moved, change = point - self._point, slope - self._slope
            bend = float(moved @ change)
            if bend > 1e-10 * float(moved @ moved):
                self._pairs = [*self._pairs[1 - self._keep :], (moved, change, bend)]
        self._point, self._value, self._slope, self._reach = point, value, slope, self.bound.reach()
        return True

    def _direction(self) -> FloatArray:
        """Downhill, by the two loops of L-BFGS, which see the curvature of single numbers from the start."""
        ahead = -self._slope
        if not self._pairs:
            return ahead * self._reach
        shares = []
        for moved, change, bend in reversed(self._pairs):
            shares.append(float(moved @ ahead) / bend)
            ahead -= shares[-1] * change
        _, change, bend = self._pairs[-1]
        ahead *= self._reach * (bend / float(change @ (self._reach * change)))
        for (moved, change, bend), share in zip(self._pairs, reversed(shares), strict=True):
            ahead += (share - float(change @ ahead) / bend) * moved
        return ahead
