"""Backward sampling in plain NumPy, for few samples of models that are drawn sooner than kernels are compiled.

The random numbers are those of `draw_kernels.py`, in the same order. Samples differ by rounding alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import Seconds
from equifactor.solvers.elimination.plain_elimination import ClusterTree, at_states

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.structure import Structure
    from equifactor.solvers.elimination.orders import Order

_MASK = 2**64 - 1
_UNIT = 1.0 / 2**53  # The distance of neighbouring numbers in [0, 1), as in `kernels.randomness`.


def plain_draw_seconds(count: int, num_clusters: int) -> float:
    """Return about how long draws take in plain NumPy, after the upward pass."""
    return num_clusters * (Seconds.PLAIN_CLUSTER_UP + count * Seconds.PLAIN_DRAW)


class PlainDraws:
    """The tables of an upward pass, to draw from.

    Attributes:
        log_z: ln Z; None when the clock stopped the work.
    """

    burst = 2.0**17  # States drawn between two checks of the clock, about 0.1 s.

    def __init__(self, structure: Structure, order: Order, log_phi: FloatArray, clock: Clock) -> None:
        self._tree = ClusterTree(structure, order, log_phi, clock)
        with np.errstate(all="ignore"):
            self.log_z = self._tree.sum_up(keep=True)

    def draw(
        self, rng: NDArray[np.uint64], part: IntArray, variables: IntArray, state_of: IntArray, first: IntArray
    ) -> None:
        """Draw the rows of part [n, V] independently and advance the generator, as `draw_kernels.draw_many` does."""
        tree, count = self._tree, len(part)
        num_clusters = len(tree.dim)
        units = _units(rng, count * num_clusters).reshape(count, num_clusters)
        x = np.zeros((num_clusters, count), np.int64)
        everything = np.arange(count)
        with np.errstate(all="ignore"):
            for n in range(num_clusters - 1, -1, -1):
                row = self._weights(n, x)
                below = np.cumsum(row, 0)
                drawn = (units[:, num_clusters - 1 - n] * below[-1] >= below[:-1]).sum(0)
                # Rounding may leave the last state, which may be a zero.
                while ((is_zero := row[drawn, everything] == 0.0) & (drawn > 0)).any():
                    drawn = np.where(is_zero, np.maximum(drawn - 1, 0), drawn)
                x[n] = drawn
        part[:, variables] = state_of[first[:, None] + x].T

    def _weights(self, n: int, x: IntArray) -> FloatArray:
        """Return the weights [d, count] of the states of a cluster, given the states of its separator."""
        tree = self._tree
        kept = tree.weights[n]
        if kept is not None:
            return np.broadcast_to(at_states(kept, x[tree.axes[n][1:]]), (tree.shape[n][0], x.shape[1]))
        total = tree.rows(n, x)
        return np.exp(total - total.max(0))


def _units(rng: NDArray[np.uint64], count: int) -> FloatArray:
    """Return uniform numbers [count] in [0, 1), as `random_unit` makes them one by one."""
    s = int(rng[0])
    found = np.empty(count, np.uint64)
    for k in range(count):
        s ^= s >> 12
        s ^= (s << 25) & _MASK
        s ^= s >> 27
        found[k] = s
    rng[0] = s
    return ((found * np.uint64(2685821657736338717)) >> np.uint64(11)).astype(np.float64) * _UNIT
