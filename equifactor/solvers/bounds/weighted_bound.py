"""The upper bound of weighted mini-buckets, lowered by shifts between the clusters of a bucket and by their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import CALL_SECONDS, EPS, Seconds

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray
    from equifactor.solvers.bounds.bucket_partition import Partition

_PART = int(CALL_SECONDS / Seconds.LAYER_ENTRY)  # Entries between two checks of the clock in a pass.
# The probability that every state has at least in the curvature. Halved or doubled: gap within 15 %.
_LEAST_PROBABILITY = 0.03

_OVERHEAD = 100.0  # Entries that take as long as the fixed cost of a cluster. Halved or doubled: gap within 15 %.


class WeightedBound:
    """An upper bound on ln Z at any shifts and weights, and its gradient.

    Args:
        part: the clusters.
        log_phi: [T] the log tables.
        layers: the number of layers, for the description.
        total: [V] the sum of the weights of the copies of each variable, in the order of elimination; 1 if None. With a
            small number for some variables, the bound holds for the maximum over them and the sum over all others.
    """

    def __init__(self, part: Partition, log_phi: FloatArray, layers: int = 1, total: FloatArray | None = None) -> None:
        from equifactor.kernels.jit import plain
        from equifactor.solvers.bounds.mini_bucket_kernels import HARD, LARGEST_BLOCK, Passing

        self.part = part
        self.layers = layers
        self._total = np.ones(len(part.share)) if total is None else total[part.bucket_of]
        b = part.buckets
        count = len(b.dim)
        messages, shifts = part.first_shift - part.first_message, part.num_shifts
        values = np.zeros(part.first_shift + shifts)
        values[: part.first_message] = np.where(np.isneginf(log_phi), HARD, log_phi)
        widest = int(b.dim.max(initial=1))
        most = int(np.diff(b.in_ptr).max(initial=1))
        self.state = Passing(
            values=values, grad=np.zeros(messages + 2 * shifts), p=np.empty(part.entries, np.float32),
            entropy=np.empty(messages, np.float32), weight=self._total / part.share, mean_entropy=np.zeros(count),
            belief=np.zeros((count, widest)), off=np.zeros(count), size=np.zeros(count),
            block=np.empty(max(LARGEST_BLOCK, widest)), rows=np.empty((3, LARGEST_BLOCK)),
            offsets=np.empty((most, LARGEST_BLOCK), np.int64),
            digit=np.empty(int(np.diff(b.axis_ptr).max(initial=1)), np.int64),
            base=np.empty(most, np.int64), kind=np.empty(most, np.int64),
        )  # fmt: skip
        self.arrays = plain(b), plain(self.state)
        self.shift = values[part.first_shift :]  # [L], a view
        self.weight = self.state.weight  # [C]
        self.cuts = np.unique(np.concatenate((np.searchsorted(b.table, np.arange(0, part.entries, _PART)), [count])))
        self._pass_work = 0.5 * work_of(part.entries, count)  # reference seconds of a pass up or down
        self._bucket_start = np.flatnonzero(np.diff(part.bucket_of, prepend=-1)) if count else np.zeros(0, np.int64)

    def up(self, clock: Clock | None = None) -> float | None:
        """Return the bound at the current shifts and weights; None if the clock stopped the pass.

        The largest possible rounding error is added, so that the bound holds for the numbers of the model.
        """
        from equifactor.solvers.bounds.mini_bucket_kernels import SOFTEST, pass_up

        for start, stop in zip(self.cuts[:-1].tolist(), self.cuts[1:].tolist(), strict=True):
            if clock is not None and clock.stopped:
                return None
            pass_up(start, stop, *self.arrays)
        if clock is not None:
            clock.spend(self._pass_work)
        ends = self.state.values[self.part.buckets.message[self.part.roots]]
        if np.any(ends < SOFTEST):
            return -np.inf
        size = float(np.abs(ends).sum())
        error = float(self.state.off[self.part.roots].sum()) + EPS * (len(ends) + 2) * size
        return float(ends.sum()) + error

    def down(self, clock: Clock | None = None) -> bool:
        """Compute the gradient, after `up`; return False if the clock stopped the pass."""
        from equifactor.solvers.bounds.mini_bucket_kernels import pass_down

        part, grad = self.part, self.state.grad
        grad[:] = 0.0
        grad[part.buckets.message[part.roots] - part.first_message] = 1.0
        for start, stop in zip(self.cuts[:0:-1].tolist(), self.cuts[-2::-1].tolist(), strict=True):
            if clock is not None and clock.stopped:
                return False
            pass_down(start - 1, stop - 1, *self.arrays)
        if clock is not None:
            clock.spend(self._pass_work)
        return True

    def gradient(self) -> FloatArray:
        """Return [L+C] the gradient with respect to shifts and log weights, after `down`."""
        part = self.part
        first = part.first_shift - part.first_message
        got, given = self.state.grad[first : first + part.num_shifts], self.state.grad[first + part.num_shifts :]
        mean = np.add.reduceat(self.weight / self._total * self.state.mean_entropy, self._bucket_start)
        more = self.state.mean_entropy - np.repeat(mean, part.share[self._bucket_start])
        return np.concatenate((got - given, self.weight * more))

    def reach(self) -> FloatArray:
        """Return [L+C] step sizes for shifts and log weights: about one over the curvature.

        The curvature along a shift is p (1 - p) / w at either cluster. Without it, many states of small probability
        slow the others down, and 1.3 to 2 times as many iterations are needed.
        """
        part = self.part
        first, count = part.first_shift - part.first_message, part.num_shifts
        length = np.diff(part.link_ptr)
        inverse = np.repeat(1.0 / self.weight[part.links], length, axis=0)
        got, given = self.state.grad[first : first + count], self.state.grad[first + count :]
        least = _LEAST_PROBABILITY
        bend = (got + least) * inverse[:, 0] + (given + least) * inverse[:, 1]
        return np.concatenate((1.0 / bend, np.ones(len(self.weight))))

    def beliefs(self) -> FloatArray:
        """Return [V, widest] state probabilities of the variables in order, as means over clusters, after `down`."""
        share = (self.weight / self._total)[:, None] * self.state.belief
        return np.add.reduceat(share, self._bucket_start, axis=0)

    def set_weight(self, weight: FloatArray) -> None:
        """Set positive weights [C], scaled to a sum of at least `total` in each bucket, as a bound requires."""
        total = np.add.reduceat(weight, self._bucket_start)
        per = self.part.share[self._bucket_start]
        scaled = self._total * weight / np.repeat(total, per)
        one = self._total
        self.weight[:] = np.where(self.part.share > 1, scaled * (1.0 + 1e-15 * (2 + self.part.share)), one)


def work_of(entries: float, clusters: int) -> float:
    """Return the reference seconds of one iteration: a pass up and a pass down."""
    return (entries + _OVERHEAD * clusters) * Seconds.LAYER_ENTRY
