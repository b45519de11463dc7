"""Sums over batches of sweeps, for a run whose length is not known when it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.solvers.sampling.diagnostics import effective_samples, split_r_hat

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

_MOST = 64  # There are at most this many batches; then each two of them become one.
_MEMORY = 2**23  # They keep at most this many numbers.


_WORLDS = 0.5  # All chains together are off by this part of their variance; measured on strips, where truth is known.
_MIXED = 1.05, 1.5  # Between these values of R-hat, chains turn from looks at one world into worlds.


class Findings(NamedTuple):
    """What the chains say about the mean of every quantity."""

    mean: FloatArray  # [X]
    error: FloatArray  # [X] the standard error of the mean
    r_hat: FloatArray  # [X] see `split_r_hat`
    effective: FloatArray  # [X] see `effective_samples`
    batches: int  # the number of batches per chain behind them


class RunningBatches:
    """Sums of X quantities and of their squares over sweeps of L chains, in at most 64 batches of equal length.

    Kernels add to `total` and `squares` [L, X], which are those of the batch that runs.

    Args:
        chains: L.
        width: X.
        length: sweeps in the first batches; it doubles when there are too many.
        dropped: one of this many parts, the first, does not count: chains are on their way from their starts. 0 if all
            count.
    """

    def __init__(self, chains: int, width: int, length: int = 1, dropped: int = 8) -> None:
        most = max(4, min(_MOST, _MEMORY // max(1, chains * width)))
        self._most = most - most % 2
        self._dropped = dropped
        self.chains = chains
        self.total = np.zeros((chains, width))
        self.squares = np.zeros((chains, width))
        self._done: list[tuple[FloatArray, FloatArray]] = []
        self.length = length  # sweeps in a batch
        self._in_batch = 0
        self.sweeps = 0  # that have ended

    @property
    def count(self) -> int:
        """The number of batches that are complete."""
        return len(self._done)

    @property
    def room(self) -> int:
        """How many sweeps the batch that runs still takes."""
        return self.length - self._in_batch

    def end_sweeps(self, count: int = 1) -> None:
        """Close some sweeps, no more than there is room for, and the batch where they were its last ones."""
        self._in_batch += count
        self.sweeps += count
        if self._in_batch < self.length:
            return
        self._done.append((self.total.copy(), self.squares.copy()))
        self.total[:] = 0.0
        self.squares[:] = 0.0
        self._in_batch = 0
        if len(self._done) == self._most:
            pairs = zip(self._done[::2], self._done[1::2], strict=True)
            self._done = [(a + b, c + d) for (a, c), (b, d) in pairs]
            self.length *= 2

    def findings(self) -> Findings:
        """Means and errors from all complete batches but the first part of them; there must be one sweep."""
        if not self._done:  # What there is of the first batch has to do.
            self.length = self._in_batch
            self.end_sweeps(0)
        drop = self._dropped if len(self._done) > 1 else 0
        kept = self._done[(len(self._done) + drop - 1) // drop if drop else 0 :]
        total, squares = np.stack([t for t, _ in kept]), np.stack([s for _, s in kept])
        means = total / self.length  # [B, L, X]
        batches, chains, width = means.shape
        mean = means.mean(axis=(0, 1))
        by_batch = (
            means.reshape(batches * chains, width).var(axis=0, ddof=1) / (batches * chains)
            if batches * chains > 1
            else mean
        )
        by_chain = means.mean(axis=0).var(axis=0, ddof=1) / chains if chains > 1 else np.zeros(width)
        # Batches that are shorter than the memory of a chain tell too little, and chains that differ tell the rest.
        # What no chain has met in N sweeps may still have a probability of the order of 1 / N.
        unseen = 1.0 / (batches * chains * self.length)
        r_hat = split_r_hat(total, squares, self.length)
        variance = widened(np.maximum(by_batch, by_chain), by_chain, r_hat, chains)
        error = np.sqrt(variance + unseen**2)
        return Findings(mean, error, r_hat, effective_samples(total, self.length), batches)


def widened(variance: FloatArray, by_chain: FloatArray, r_hat: FloatArray, chains: int) -> FloatArray:
    """[X] squared errors of means of L chains, larger where the chains have not mixed.

    Chains that have not mixed are not L independent looks at the truth: each is in a world of its own, and how far they
    lie apart tells how far all of them may be off. What they agree on belongs to these worlds as well, so that no error
    stays below the average by much where many quantities have not mixed.

    Args:
        variance: [X] squared errors if the chains had mixed.
        by_chain: [X] the variance of the means of the chains over their number.
        r_hat: [X] see `split_r_hat`.
        chains: L.
    """
    if chains == 1 or not len(variance):
        return variance
    low, high = _MIXED
    apart = np.clip((r_hat - low) / (high - low), 0.0, 1.0)
    spread = np.maximum(variance, apart * _WORLDS * chains * by_chain)
    return np.maximum(spread, apart.mean() * spread.mean())
