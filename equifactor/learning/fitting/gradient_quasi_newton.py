"""Limited-memory quasi-Newton descent for a smooth convex function plus an L1 penalty (OWL-QN, [Andrew07])."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from equifactor.base.typing import FloatArray
from equifactor.kernels.quasi_newton import CurvaturePairs

_PAIRS = 10  # The number of pairs of steps and changes of the gradient that are kept. Chosen by hand.
_SHRINK = 0.5  # The factor of the step size after a step that gains too little. Chosen by hand.
_DECREASE = 1e-4  # A step must gain this share of the gain that the slope predicts; the usual value of Armijo's rule.
_HALVINGS = 40  # The number of shorter steps in a row after which the descent counts as settled. Chosen by hand.


class Evaluation(NamedTuple):
    """A smooth function at a point."""

    value: float
    gradient: FloatArray  # [P]
    log_likelihood: float | None = None  # The log-likelihood per row that belongs to the value.


Objective = Callable[[FloatArray], Evaluation | None]


@dataclass
class QuasiNewton:
    """The complete state of a descent, so that it can be written to a file and continued from it.

    Without L1, the steps are the steps of L-BFGS. With L1, a step stays in the orthant of its start, so that parameters
    become exactly zero. The slope is then the slope of the function with its penalty.
    """

    x: FloatArray  # [P] the point
    l1: float = 0.0
    at: Evaluation | None = None  # The function at the point.
    pairs: CurvaturePairs = field(default_factory=lambda: CurvaturePairs(_PAIRS))

    def total(self, x: FloatArray, at: Evaluation) -> float:
        """Return the function with its L1 penalty."""
        return at.value + self.l1 * float(np.abs(x).sum())

    def slope(self) -> FloatArray:
        """Return the subgradient [P] of least length, which is 0 exactly at a minimum."""
        assert self.at is not None
        g = self.at.gradient
        if self.l1 == 0.0:
            return g
        right, left = g + self.l1, g - self.l1
        at_zero = np.where(right < 0.0, right, np.where(left > 0.0, left, 0.0))
        return np.where(self.x > 0.0, right, np.where(self.x < 0.0, left, at_zero))

    def advance(self, objective: Objective) -> float | None:
        """Make one iteration, and return the decrease of the function.

        The result is 0.0 if no step makes the function fall, and None if the objective was stopped.
        """
        if self.at is None:
            self.at = objective(self.x)
            if self.at is None:
                return None
        slope = self.slope()
        direction = self._direction(slope)
        if float(direction @ slope) >= 0.0:  # Rounding, or a gradient that is an estimate, has spoilt the pairs.
            self.pairs.clear()
            direction = -slope
        orthant = np.sign(np.where(self.x == 0.0, -slope, self.x))
        size = 1.0 if self.pairs else min(1.0, 1.0 / max(float(np.abs(slope).max(initial=0.0)), 1e-300))
        before = self.total(self.x, self.at)
        for _ in range(_HALVINGS):
            x = self.x + size * direction
            if self.l1 > 0.0:
                x = np.where(np.sign(x) == orthant, x, 0.0)
            found = objective(x)
            if found is None:
                return None
            gain = before - self.total(x, found)
            if gain >= -_DECREASE * float(slope @ (x - self.x)) and gain >= 0.0:
                self.pairs.remember(x - self.x, found.gradient - self.at.gradient)
                self.x, self.at = x, found
                return gain
            size *= _SHRINK
        return 0.0

    def _direction(self, slope: FloatArray) -> FloatArray:
        """Return the quasi-Newton direction; with L1, without the components that go uphill."""
        d = self.pairs.direction(slope)
        return np.where(d * slope < 0.0, d, 0.0) if self.l1 > 0.0 else d
