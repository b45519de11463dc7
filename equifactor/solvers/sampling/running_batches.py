"""Sums over batches of sweeps, for a run whose length is not known at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.solvers.sampling.diagnostics import effective_samples, split_r_hat

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

_MOST = 64  # Batches at most; then pairs of batches are joined. Chosen by hand.
_MEMORY = 2**23  # Numbers that all batches keep at most: 64 MiB.
_UNMIXED_SHARE = 0.5  # The share of the variance between unmixed chains in the squared error of their mean: on strips.
_MIXED = 1.05, 1.5  # Values of R-hat at which chains count as fully mixed, and as not mixed at all. Chosen by hand.


class Findings(NamedTuple):
    """The mean of every quantity over all chains, and its diagnostics."""

    mean: FloatArray  # [X]
    error: FloatArray  # [X] the standard error of the mean
    r_hat: FloatArray  # [X] see `split_r_hat`
    effective: FloatArray  # [X] see `effective_samples`
    batches: int  # the number of batches per chain behind them


class RunningBatches:
    """Sums of X quantities and of their squares over sweeps of L chains, in at most 64 batches of equal length.

    Kernels add to `total` and `squares` [L, X], the sums of the current batch.

    Args:
        chains: L.
        width: X.
        length: sweeps in the first batches; it doubles when there are too many batches.
        dropped: the first 1/dropped of the batches is left out, because it depends on the starts; 0 to keep all.
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
        self.sweeps = 0  # the number of complete sweeps

    @property
    def count(self) -> int:
        """The number of batches that are complete."""
        return len(self._done)

    @property
    def room(self) -> int:
        """The number of sweeps until the current batch is complete."""
        return self.length - self._in_batch

    def end_sweeps(self, count: int = 1) -> None:
        """Count sweeps, at most `room`, and close the batch if it is complete."""
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
        """Return means and errors from all complete batches but the first ones; at least one sweep is needed."""
        if not self._done:  # The first batch is used as it is.
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
        # Batches shorter than the autocorrelation of a chain understate the error; the difference between chains does
        # not. A state that no chain has met in N sweeps may still have a probability of the order of 1 / N.
        unseen = 1.0 / (batches * chains * self.length)
        r_hat = split_r_hat(total, squares, self.length)
        variance = widened(np.maximum(by_batch, by_chain), by_chain, r_hat, chains)
        error = np.sqrt(variance + unseen**2)
        return Findings(mean, error, r_hat, effective_samples(total, self.length), batches)


def widened(variance: FloatArray, by_chain: FloatArray, r_hat: FloatArray, chains: int) -> FloatArray:
    """[X] squared errors of means of L chains, larger where the chains have not mixed.

    Chains that have not mixed are not L independent samples of the model: each is in a mode of its own, and their
    distance from each other estimates the error of all. Quantities on which they agree depend on the modes as well. So
    if many quantities have not mixed, no error stays far below the average.

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
    spread = np.maximum(variance, apart * _UNMIXED_SHARE * chains * by_chain)
    return np.maximum(spread, apart.mean() * spread.mean())
