"""Circuits: the trace of a search as sums and products of literal weights, which answers questions again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class LiteralCircuit:
    """A smooth, decomposable, deterministic circuit over the literals of a formula with n variables.

    Leaf x below 2n is literal x. Leaf 2n + v is a free variable v: the sum of both its literals.
    """

    node_ptr: IntArray  # [nodes + 1]
    arena: NDArray[np.int32]  # see `circuit_kernels`; the last node is the root
    log_weights: FloatArray  # [2n]

    @property
    def num_nodes(self) -> int:
        """The number of nodes; each is a sum of at most two products."""
        return len(self.node_ptr) - 1

    @property
    def num_edges(self) -> int:
        """The number of factors of all products."""
        return len(self.arena) - 2 * self.num_nodes

    @property
    def log_weights_of_leaves(self) -> FloatArray:
        """[3n] the log weights of all leaves."""
        return _with_free(self.log_weights)

    def log_sum_and_shares(self, log_weights: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Return the log of the sum, and [2n] the share of each literal in it: its probability."""
        from equifactor.solvers.counting.circuit_kernels import spread_down, sum_up

        own = self.log_weights if log_weights is None else log_weights
        branch, share, p = np.empty((self.num_nodes, 2)), np.zeros(self.num_nodes), np.zeros(len(own) * 3 // 2)
        leaf = _with_free(own)
        total = sum_up(self.node_ptr, self.arena, leaf, branch)
        if total == -np.inf:
            return total, p[: len(own)]
        spread_down(self.node_ptr, self.arena, branch, share, p)
        return total, p[: len(own)] + _free_shares(p, leaf)

    def draw(self, log_weights: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
        """Return [count, n] the literals of assignments, drawn in proportion to their weights."""
        from equifactor.solvers.counting.circuit_kernels import descend, sum_up

        branch, leaf = np.empty((self.num_nodes, 2)), _with_free(log_weights)
        sum_up(self.node_ptr, self.arena, leaf, branch)
        literals = np.zeros((count, len(log_weights) // 2), np.int64)
        step = max(1, 2**22 // (self.num_nodes + literals.shape[1]))
        for first in range(0, count, step):
            part = literals[first : first + step]
            chance = rng.random((len(part), self.num_nodes + literals.shape[1]))
            descend(self.node_ptr, self.arena, leaf, branch, chance, part)
        return literals

    def best(self, log_weights: FloatArray) -> IntArray:
        """Return [n] the literals of an assignment of the largest weight."""
        from equifactor.solvers.counting.circuit_kernels import best_up, descend

        branch = np.empty((self.num_nodes, 2))
        leaf = np.append(log_weights, np.maximum(log_weights[::2], log_weights[1::2]))
        best_up(self.node_ptr, self.arena, leaf, branch)
        literals = np.zeros((1, len(log_weights) // 2), np.int64)
        descend(self.node_ptr, self.arena, leaf, branch, np.zeros((1, 0)), literals)
        return np.asarray(literals[0])

    def count(self, shown: BoolArray | None = None) -> int:
        """Return the number of assignments of the circuit, of any size, without weights.

        Args:
            shown: [n] the variables to count over, all if None. Every node that has a shown variable must be a sum
                over one, as after a search that decides shown variables first.
        """
        n = len(self.log_weights) // 2
        size = [2] * n if shown is None else (1 + shown).tolist()
        totals, has_shown = [0] * self.num_nodes, [False] * self.num_nodes
        arena, ptr = self.arena.tolist(), self.node_ptr.tolist()
        for k in range(self.num_nodes):
            at = ptr[k] + 2
            for length in arena[ptr[k] : ptr[k] + 2]:
                product = int(length >= 0)
                for x in arena[at : at + max(0, length)]:
                    if x >= 2 * n:
                        product *= size[x - 2 * n]
                    elif x < 0:
                        product *= totals[-1 - x]
                    has_shown[k] |= has_shown[-1 - x] if x < 0 else size[(x >> 1) if x < 2 * n else x - 2 * n] == 2
                at += max(0, length)
                totals[k] += product
            if not has_shown[k]:
                totals[k] = min(totals[k], 1)
        return totals[-1]


def _with_free(log_weights: FloatArray) -> FloatArray:
    """Return [3n] the log weights of all leaves."""
    return np.append(log_weights, np.logaddexp(log_weights[::2], log_weights[1::2]))


def _free_shares(p: FloatArray, leaf: FloatArray) -> FloatArray:
    """Return [2n] the shares of literals from those of free variables."""
    size = len(leaf) * 2 // 3
    free = np.repeat(leaf[size:], 2)
    with np.errstate(invalid="ignore"):
        split = np.where(free > -np.inf, np.exp(leaf[:size] - free), 0.0)
    return np.asarray(np.repeat(p[size:], 2) * split)
