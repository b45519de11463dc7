"""Repair of impossible assignments: a focused search whose energy is the number of zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors import moves
from equifactor.factors.move_model import MoveState
from equifactor.kernels.jit import plain
from equifactor.solvers.search import focus_kernels
from equifactor.solvers.search.focus_kernels import FocusArrays

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.factors.move_model import MoveModel

_TRIALS = 50_000  # Most changes that a phase tries: about 10 ms, below `CALL_SECONDS`.
# Most changes per variable that a phase tries, for small graphs. Halved or doubled: error within 30 %.
_TRIALS_PER_VARIABLE = 200
# The probability of accepting one more zero, for factors of 0, 1, .. variables. Clauses left on two formulas of 10,000
# variables each, 3-SAT at a ratio of 4.2 after 8 million moves: 9 and 12 with 0.27, 11 and 8 with 0.30, 4 and 9 with
# 0.33, 17 and 0 with 0.35, 75 and 62 with 0.38; 4-SAT at 9.3 after 4 million: 12 and 10 with 0.21, 4 and 2 with 0.25,
# 51 and 18 with 0.293; 5-SAT at 20 after 2.5 million: 120 and 126 with 0.14, 110 and 118 with 0.17, 108 and 97 with
# 0.19, 97 and 108 with 0.21, 257 and 294 with 0.254; 6-SAT at 40 after 1.2 million: 165 and 167 with 0.16, 236 and 219
# with 0.20.
_NOISE = (0.33, 0.33, 0.33, 0.33, 0.25, 0.2, 0.16)


class FocusedWalk:
    """An assignment whose zeros are repaired one by one; `best_x` [V] and `best_score` are the best it has met.

    Args:
        model: the compiled graph; some of its factors are structured.
        rng: the source of the seed.
        x: [V] the start.
    """

    score: float  # score of the present assignment, zeros as penalties

    def __init__(self, model: MoveModel, rng: np.random.Generator, x: IntArray) -> None:
        count, num_vars = model.num_structured, len(model.card)
        self.model = model
        self.moves = 0
        self._state = MoveState.zeros(model.arrays)
        trials = min(_TRIALS, _TRIALS_PER_VARIABLE * num_vars + 1000)
        zeros, place = np.zeros(count, np.int64), np.zeros(count, np.int64)
        trail = np.zeros((trials, 2), np.int64)
        self._focus: FocusArrays = FocusArrays(zeros, place, np.zeros(1, np.int64), trail, x.copy(), np.array(_NOISE))
        self._bits = rng.integers(1, 2**64, 1, np.uint64)
        self._records = plain(model.arrays), plain(self._state), plain(self._focus)
        self._state.x[:] = x
        self._renew()
        self.best_score = self.score

    @property
    def best_x(self) -> IntArray:
        """The best assignment [V] met, not a copy."""
        return self._focus.best_x

    @property
    def num_zeros(self) -> int:
        """The number of structured factors that are zero at the present assignment."""
        return int(self._focus.count[0])

    def step(self) -> bool:
        """Run one phase; return whether the best assignment has fewer zeros than before."""
        before = self.best_score
        self.score, self.best_score, moved = focus_kernels.focused_walk(
            *self._records, self._bits, self.score, self.best_score, self.model.penalty
        )
        self.moves += int(moved)
        return self.best_score > before

    def _renew(self) -> None:
        """Recompute the sums of the present assignment."""
        self.score = moves.rebuild(*self._records[:2]) + self.model.constant
        focus_kernels.find_zeros(*self._records, self.model.penalty)
