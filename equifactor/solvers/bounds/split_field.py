"""A lower bound on ln Z from many fields, one for each part of the joint states.

The parts are disjoint, so their bounds add up: ln Z >= ln sum_s exp(L_s). Splitting a variable gives each of its states
a field of its own, and q becomes a mixture. That never lowers the sum at the best fields of the parts.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import EPS, OTHER_STEPS

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray
    from equifactor.solvers.bounds.block_field import BlockField


class SplitField:
    """The parts of one field, the part with the largest bound on top.

    Args:
        field: the field of all states, at its best q.
        bound: the bound of the field.
        sweeps: most sweeps over the blocks for each part.
        gain: a part that gains less in a sweep has settled.
    """

    def __init__(self, field: BlockField, bound: float, sweeps: int, gain: float) -> None:
        self.field, self._sweeps, self._gain = field, sweeps, gain
        self._parts: list[tuple[float, int, FloatArray, BoolArray]] = []  # -bound, number, q, states of parts to split
        self._done: list[float] = []  # bounds of parts that cannot be split
        self._count = 0
        self._push(bound, field.q.copy(), np.ones(len(field.q), bool))

    @property
    def finished(self) -> bool:
        """Whether no part can be split."""
        return not self._parts

    @property
    def count(self) -> int:
        """The number of parts."""
        return len(self._parts) + len(self._done)

    def bound(self) -> float:
        """Return the bound of all parts together, minus the largest possible rounding error."""
        bounds = np.array([-part[0] for part in self._parts] + self._done)
        best = float(bounds.max(initial=-math.inf))
        if best == -math.inf:
            return best
        total = best + math.log(float(np.exp(bounds - best).sum()))
        return total - EPS * (abs(best) + abs(total) + 2.0 * len(bounds) + OTHER_STEPS)

    def split(self, clock: Clock) -> None:
        """Split the part with the largest bound; it stays whole if the clock stops or the bound does not improve."""
        field = self.field
        negative, _, q, allowed = heapq.heappop(self._parts)
        field.q[:], field.allowed[:] = q, allowed
        variable = field.doubtful()
        pieces = []
        if variable is not None:
            first, last = field.structure.state_ptr[variable : variable + 2].tolist()
            for state in range(first, last):
                if allowed[state]:
                    part = allowed.copy()
                    part[first:last] = False
                    part[state] = True
                    piece = self._ascend(q, part, state, (first, last), clock)
                    if piece is not None:
                        pieces.append((piece[0], piece[1], part))
        top = max((piece[0] for piece in pieces), default=-math.inf)
        if top == -math.inf or top + math.log(sum(math.exp(p[0] - top) for p in pieces)) <= -negative:
            self._done.append(-negative)
            return
        for bound, piece_q, part in pieces:
            self._push(bound, piece_q, part)

    def _push(self, bound: float, q: FloatArray, allowed: BoolArray) -> None:
        self._count += 1
        heapq.heappush(self._parts, (-bound, self._count, q, allowed))

    def _ascend(
        self, q: FloatArray, allowed: BoolArray, state: int, states: tuple[int, int], clock: Clock
    ) -> tuple[float, FloatArray] | None:
        """Return the best bound of a part and its q, from the q of the whole with one variable fixed."""
        field = self.field
        field.begin(q)
        field.allowed[:] = allowed
        field.q[states[0] : states[1]] = 0.0
        field.q[state] = 1.0
        best: tuple[float, FloatArray] | None = None
        for _ in range(self._sweeps):
            if not all(field.update(number, clock) for number in range(len(field.blocks))):
                break
            bound = field.bound()
            settled = best is not None and bound < best[0] + self._gain
            if best is None or bound > best[0]:
                best = bound, field.q.copy()
            if settled:
                break
        return best
