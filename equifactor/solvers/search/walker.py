"""One assignment that moves: the state of the search kernels and the arrays they work in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors import moves
from equifactor.factors.move_model import MoveState
from equifactor.kernels.jit import plain
from equifactor.solvers.search import tree_regions, walk_kernels
from equifactor.solvers.search.tree_blocks import RegionArrays
from equifactor.solvers.search.tree_regions import RegionPlan
from equifactor.solvers.search.walk_kernels import WalkArrays

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.factors.move_model import MoveModel


class Walker:
    """An assignment `x [V]` of a `MoveModel`, its score (zeros as penalties) and the moves that change it."""

    def __init__(self, model: MoveModel, rng: np.random.Generator) -> None:
        self.model = model
        self.score = 0.0
        self._state = MoveState.zeros(model.arrays)
        self._bits = rng.integers(1, 2**64, 1, np.uint64)
        self._walk: WalkArrays = WalkArrays.zeros(len(model.card))
        move = plain(model.arrays), plain(self._state)
        self._move_records = move  # the arguments of the kernels
        self._walk_records = *move, plain(self._walk)
        self._region_records = *move, plain(RegionArrays.zeros(model.card, model.num_structured))

    @property
    def x(self) -> IntArray:
        """The assignment [V] itself, not a copy."""
        return self._state.x

    @property
    def gain(self) -> FloatArray:
        """The gain of the best change of each variable [V], as `ascend` or `tabu` left it."""
        return self._walk.gain

    def start(self, x: IntArray) -> None:
        """Go to an assignment, or recompute the sums at the present one, which removes rounding."""
        self.x[:] = x
        self.score = moves.rebuild(*self._move_records) + self.model.constant

    @property
    def possible(self) -> bool:
        """Whether the probability of the assignment is positive."""
        return self.score >= self.model.possible_score

    def ascend(self, most: int) -> int:
        """Make the best single-variable improvements while there are any, at most `most`; return their number."""
        risen, done = walk_kernels.ascend(*self._walk_records, most, self.model.smallest_gain)
        self.score += risen
        return int(done)

    def tabu(self, count: int, shortest: int, longest: int) -> tuple[IntArray, float]:
        """Make `count` best moves, variables resting after each; return the best assignment met and its score."""
        self._walk.best_x[:] = self.x
        self.score, best = walk_kernels.tabu(
            *self._walk_records, self._bits, count, self.score, shortest, longest, self.model.smallest_gain
        )
        return self._walk.best_x, best

    def anneal(self, plan: RegionPlan, heat: float) -> None:
        """Heat and cool random regions by blocks along trees; the score never falls."""
        self.score += tree_regions.anneal_regions(
            *self._region_records, self._bits, plain(plan), heat, self.model.smallest_gain
        )

    def optimise_forest(self) -> None:
        """Solve one random forest of the whole graph given the rest; exact if the graph is a forest."""
        size = len(self.x)
        self.anneal(RegionPlan(regions=1, smallest=size, largest=size, blocks=1), 0.0)

    def recombine(self, mate: IntArray) -> None:
        """Take over every independent part of another assignment that is better there."""
        self.score += tree_regions.recombine(*self._region_records, mate, self.model.smallest_gain)
