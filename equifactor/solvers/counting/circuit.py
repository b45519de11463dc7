"""Circuits: the trace of a search as sums and products of literal weights, which answers questions again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Circuit:
    """A smooth, decomposable, deterministic circuit over the literals of a formula with n variables.

    Leaf x below 2n is literal x. Leaf 2n + v is a free variable v: the sum of both its literals.
    """

    node_ptr: IntArray  # [nodes + 1]
    arena: NDArray[np.int32]  # see `circuit_kernels`; the last node is the root
    log_weights: FloatArray  # [2n]

    def log_sum_and_shares(self) -> tuple[float, FloatArray]:
        """Return the log of the sum, and [2n] the share of each literal in it: its probability."""
        from equifactor.solvers.counting.circuit_kernels import spread_down, sum_up

        own = self.log_weights
        free = np.logaddexp(own[::2], own[1::2])
        count = len(self.node_ptr) - 1
        branch, share, p = np.empty((count, 2)), np.zeros(count), np.zeros(len(own) + len(free))
        total = sum_up(self.node_ptr, self.arena, np.concatenate((own, free)), branch)
        spread_down(self.node_ptr, self.arena, branch, share, p)
        return total, p[: len(own)] + np.repeat(p[len(own) :], 2) * np.exp(own - np.repeat(free, 2))
