"""Limited-memory BFGS: the curvature that past steps have shown, and the direction that follows from it [Nocedal80]."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from equifactor.base.typing import FloatArray

# A pair is kept only if s . y exceeds this share of |s| |y|: the curvature along s is then clearly positive.
# Chosen by hand, well above the rounding errors of a dot product.
_LEAST_COSINE = 1e-10


class CurvaturePairs:
    """The last steps s [P] of a descent and the changes y [P] of the gradient along them.

    Args:
        most: the number of pairs that are kept.
        pairs: pairs (s, y) to begin with, the oldest first.
    """

    def __init__(self, most: int, pairs: Iterable[tuple[FloatArray, FloatArray]] = ()) -> None:
        self.most = most
        self._pairs: list[tuple[FloatArray, FloatArray, float]] = []  # s, y and s . y
        for step, change in pairs:
            self.remember(step, change)

    def __len__(self) -> int:
        return len(self._pairs)

    def arrays(self, size: int) -> tuple[FloatArray, FloatArray]:
        """Return all steps [n, size] and all changes of the gradient [n, size], the oldest first."""
        steps, changes = ([pair[k] for pair in self._pairs] for k in (0, 1))
        return np.array(steps, float).reshape(-1, size), np.array(changes, float).reshape(-1, size)

    def clear(self) -> None:
        """Forget all pairs: the next direction follows the gradient alone."""
        self._pairs = []

    def remember(self, step: FloatArray, change: FloatArray) -> None:
        """Keep a pair if the function bends upwards along it."""
        bend = float(step @ change)
        if bend > _LEAST_COSINE * math.sqrt(float(step @ step) * float(change @ change)):
            self._pairs = [*self._pairs, (step, change, bend)][-self.most :]

    def direction(self, gradient: FloatArray, scale: FloatArray | None = None) -> FloatArray:
        """Return the quasi-Newton direction [P], downhill, by the two loops over the pairs.

        Args:
            gradient: [P] at the present point.
            scale: [P] the inverse of a diagonal guess of the curvature, up to a factor; ones if it is None.
        """
        ahead = -gradient
        if not self._pairs:
            return ahead if scale is None else ahead * scale
        shares = []
        for step, change, bend in reversed(self._pairs):
            shares.append(float(step @ ahead) / bend)
            ahead -= shares[-1] * change
        _, change, bend = self._pairs[-1]
        if scale is None:
            ahead *= bend / float(change @ change)
        else:
            ahead *= scale * (bend / float(change @ (scale * change)))
        for (step, change, bend), share in zip(self._pairs, reversed(shares), strict=True):
            ahead += (share - float(change @ ahead) / bend) * step
        return ahead
