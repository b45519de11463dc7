"""One assignment on the move: state and scratch of the search kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.numerics import moves
from equifactor.solvers.optimise import tree_regions as regions
from equifactor.solvers.optimise import walk_kernels as search

if TYPE_CHECKING:
    from equifactor.graph.search_model import SearchModel
    from equifactor.typing import IntArray


class Walker:
    """An assignment `x [V]` of a `SearchModel`, its score (zeros as penalties) and the moves that change it."""

    def __init__(self, model: SearchModel, rng: np.random.Generator) -> None:
        self.model = model
        num_vars, arrays = len(model.card), model.arrays
        self.x: IntArray = np.zeros(num_vars, np.int64)
        self.score = 0.0
        self._bits = rng.integers(1, 2**64, 1, np.uint64)
        self._sums = np.zeros(len(arrays.unary)), np.zeros(len(arrays.factors) - 1, np.int64)
        self.gain = np.zeros(num_vars)
        self._choice = np.zeros(num_vars, np.int64)
        # In the order of `anneal_regions`; the second one marks the region and is zero between calls.
        self._scratch = [np.zeros(num_vars, np.int64) for _ in range(8)]
        widest = int(model.card.max(initial=1))
        self._tables = np.zeros(len(arrays.unary)), np.zeros(widest), np.zeros(widest * widest)

    def start(self, x: IntArray) -> None:
        """Go to an assignment, or renew the sums at the present one, which removes what rounding has added."""
        self.x[:] = x
        self.score = moves.rebuild(*self.model.arrays, self.x, *self._sums) + self.model.constant

    @property
    def possible(self) -> bool:
        """The probability of the assignment is not zero."""
        return self.score >= self.model.possible

    def ascend(self, most: int) -> int:
        """Best single-variable improvements until there is none, at most so many; how many there were.

        Leaves in `gain [V]` what the best change of each variable would bring.
        """
        heap, place = self._scratch[2:4]
        risen, done = search.ascend(
            *self.model.arrays, self.x, *self._sums, self.gain, self._choice, heap, place, most, self.model.least
        )  # fmt: skip
        self.score += risen
        return int(done)

    def tabu(self, count: int, shortest: int, longest: int) -> tuple[IntArray, float]:
        """So many best moves with variables at rest after moving; the best assignment met and its score."""
        best_x, until = self._scratch[2:4]
        best_x[:] = self.x
        self.score, best = search.tabu(
            *self.model.arrays, self.x, *self._sums, self.gain, self._choice, until, best_x, self._bits, count,
            self.score, self.score, shortest, longest, self.model.least,
        )  # fmt: skip
        return best_x, best

    def anneal(self, count: int, smallest: int, largest: int, blocks: int, heat: float) -> None:
        """Heat and cool so many random regions by blocks along trees; the score never falls."""
        self.score += regions.anneal_regions(
            *self.model.arrays, self.x, *self._sums, self._bits, *self._scratch, *self._tables, count, smallest,
            largest, blocks, heat, self.model.least,
        )  # fmt: skip

    def optimise_forest(self) -> None:
        """Solve one random forest of the whole graph given the rest; exact when the graph is one."""
        size = len(self.x)
        self.anneal(1, size, size, 1, 0.0)

    def recombine(self, mate: IntArray) -> None:
        """Take over every independent part of another assignment that is better there."""
        self.score += regions.recombine(
            *self.model.arrays, self.x, *self._sums, mate, *self._scratch[:6], self.model.least
        )  # fmt: skip
