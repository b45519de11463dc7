"""Limited-memory quasi-Newton descent for a smooth convex function plus an L1 penalty (OWL-QN, [Andrew07])."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from equifactor.base.typing import FloatArray

_MEMORY = 10  # pairs of steps and changes of the gradient that are kept
_SHRINK = 0.5
_DECREASE = 1e-4  # a step must gain this share of what the slope promises
_HALVINGS = 40


class Evaluation(NamedTuple):
    """A smooth function at a point."""

    value: float
    gradient: FloatArray  # [P]
    log_likelihood: float | None = None  # what the value says about the data, per row


Objective = Callable[[FloatArray], Evaluation | None]


@dataclass
class QuasiNewton:
    """Where a descent stands: all of it, so that it can be kept in a file and gone on from.

    Without L1 these are the steps of L-BFGS. With L1 a step stays in the orthant of its start, so that parameters
    become exactly zero, and the slope is that of the whole function.
    """

    x: FloatArray  # [P] the point
    l1: float = 0.0
    at: Evaluation | None = None  # the function at that point
    steps: list[FloatArray] = field(default_factory=list)  # changes of x in the last iterations
    turns: list[FloatArray] = field(default_factory=list)  # changes of the gradient in the same

    def total(self, x: FloatArray, at: Evaluation) -> float:
        """The function with its L1 penalty."""
        return at.value + self.l1 * float(np.abs(x).sum())

    def slope(self) -> FloatArray:
        """[P] the subgradient of least length: 0 exactly at a minimum."""
        assert self.at is not None
        g = self.at.gradient
        if self.l1 == 0.0:
            return g
        right, left = g + self.l1, g - self.l1
        at_zero = np.where(right < 0.0, right, np.where(left > 0.0, left, 0.0))
        return np.where(self.x > 0.0, right, np.where(self.x < 0.0, left, at_zero))

    def advance(self, objective: Objective) -> float | None:
        """One iteration: how much the function fell, 0.0 where no step makes it fall; None where it was stopped."""
        if self.at is None:
            self.at = objective(self.x)
            if self.at is None:
                return None
        slope = self.slope()
        direction = self._direction(slope)
        if float(direction @ slope) >= 0.0:  # Rounding, or a gradient that is an estimate, has spoilt the memory.
            self.steps, self.turns = [], []
            direction = -slope
        orthant = np.sign(np.where(self.x == 0.0, -slope, self.x))
        size = 1.0 if self.steps else min(1.0, 1.0 / max(float(np.abs(slope).max(initial=0.0)), 1e-300))
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
                self._remember(x - self.x, found.gradient - self.at.gradient)
                self.x, self.at = x, found
                return gain
            size *= _SHRINK
        return 0.0

    def _remember(self, step: FloatArray, turn: FloatArray) -> None:
        if float(step @ turn) > 1e-10 * float(turn @ turn):  # Only then is the curvature seen along it positive.
            self.steps, self.turns = [*self.steps, step][-_MEMORY:], [*self.turns, turn][-_MEMORY:]

    def _direction(self, slope: FloatArray) -> FloatArray:
        """The quasi-Newton direction, by the two loops over the memory."""
        d = -slope
        shares = []
        pairs = list(zip(self.steps, self.turns, strict=True))
        for step, turn in reversed(pairs):
            share = float(step @ d) / float(step @ turn)
            d = d - share * turn
            shares.append(share)
        if pairs:
            step, turn = pairs[-1]
            d = d * (float(step @ turn) / float(turn @ turn))
        for (step, turn), share in zip(pairs, reversed(shares), strict=True):
            d = d + step * (share - float(turn @ d) / float(step @ turn))
        return np.where(d * slope < 0.0, d, 0.0) if self.l1 > 0.0 else d
