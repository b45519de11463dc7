"""A pool of states: chains jump along the difference of two of them. It stays fixed, so that chains are independent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray

RECENT = 2  # Sets of states of all chains that are replaced during the run. Chosen on strips; more make errors worse.
_LONGER = 4  # States are replaced whenever the run has become longer by one over this. Chosen on strips of spins.


class JumpPool:
    """States that stay as they are for long: those before and after annealing, and a few of the run itself.

    Two states that differ in a whole domain show a chain how to move that domain at once. While the pool stays as it
    is, a jump is a step of one chain alone, which depends on no other chain. The recent states are replaced less and
    less often, whenever the run has become a quarter longer. The first states are never replaced: every mode that was
    found once can be left and reached again.

    Args:
        num_vars: V.
    """

    def __init__(self, num_vars: int) -> None:
        self._first = np.zeros((0, num_vars), np.int64)
        self._recent: list[IntArray] = []
        self._next = 1
        self.states = self._first  # [M, V]

    def add(self, x: IntArray) -> None:
        """Add states [n, V] that are kept."""
        self._first = np.concatenate((self._first, x))
        self._join()

    def renew(self, x: IntArray, sweeps: int) -> None:
        """Replace the oldest recent states by x [n, V] if the run has become a quarter longer since the last time."""
        if sweeps >= self._next:
            self._next = sweeps + max(1, sweeps // _LONGER)
            self._recent = [*self._recent, x.copy()][-RECENT:]
            self._join()

    def _join(self) -> None:
        self.states = np.concatenate((self._first, *self._recent))


def share_of_jumps(jumped: FloatArray, starts: int, tries: float) -> float:
    """Return the share of an independent draw that a sweep is worth at most, given how often its jumps were accepted.

    If hardly any jump is accepted, sweeps hardly change the mode. Then the share is between 1 and the number of starts
    and accepted jumps for each sweep, in logarithms.

    Args:
        jumped: [2] jumps that were tried and accepted.
        starts: the number of chains.
        tries: jumps in a sweep.
    """
    tried, accepted = jumped.tolist()
    return math.sqrt(min(1.0, tries * (starts + accepted) / tried)) if tried else 1.0
