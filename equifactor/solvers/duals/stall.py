"""The test that decides when a bound that sweeps lower has stopped falling."""

from __future__ import annotations

import math
from collections import deque

# Sweeps over which the fall of a bound without cycles is measured. Halved or doubled: gap within 10 %.
STALL_SWEEPS = 20
# The share of the gap by which a bound must fall, or it has stalled. Halved or doubled: gap within 20 %.
LEAST_FALL = 1e-3


class Stall:
    """The bounds of the last sweeps, and the decision whether they still fall.

    Args:
        sweeps: the fall is measured over this many sweeps; before that many, only an infinite gap counts as
            stalled.
        share_of_gap: a fall up to this share of the gap does not count as a fall.
        share_of_bound: a fall up to this share of the bound, or of 1 if that is larger, does not count as a fall
            either.
    """

    def __init__(self, sweeps: int, share_of_gap: float | None = None, share_of_bound: float | None = None) -> None:
        self._bounds: deque[float] = deque(maxlen=sweeps + 1)
        self._share_of_gap = share_of_gap
        self._share_of_bound = share_of_bound

    def add(self, bound: float) -> None:
        """Record the bound after one more sweep."""
        self._bounds.append(bound)

    def clear(self) -> None:
        """Drop all bounds, because the next ones cannot be compared with them."""
        self._bounds.clear()

    @property
    def fall(self) -> float:
        """The fall of the bound over the sweeps that are watched; infinite before there were that many."""
        return self._bounds[0] - self._bounds[-1] if len(self._bounds) == self._bounds.maxlen else math.inf

    def stalled(self, gap: float = math.nan) -> bool:
        """Return whether the bound has stopped falling.

        Args:
            gap: the difference of bound and score. An infinite gap, while no assignment is known, counts as stalled
                at once.
        """
        fall = self.fall
        if self._share_of_gap is not None and fall <= self._share_of_gap * gap:
            return True
        if self._share_of_bound is None or not math.isfinite(fall):
            return False
        return fall <= self._share_of_bound * max(1.0, abs(self._bounds[-1]))
