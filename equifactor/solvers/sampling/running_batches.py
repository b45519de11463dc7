"""Sums over batches of sweeps, for a run whose length is not known when it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.solvers.sampling.diagnostics import effective_samples, split_r_hat

if TYPE_CHECKING:
    from equifactor.typing import FloatArray

_MOST = 64  # There are at most this many batches; then each two of them become one.
_MEMORY = 2**23  # They keep at most this many numbers.
_DROPPED = 8  # The first of this many parts of a run is dropped: the chains are on their way from their starts.


class Findings(NamedTuple):
    """What the chains say about the mean of every quantity."""

    mean: FloatArray  # [X]
    error: FloatArray  # [X] the standard error of the mean
    r_hat: FloatArray  # [X] see `split_r_hat`
    effective: FloatArray  # [X] see `effective_samples`
    batches: int  # the number of batches per chain behind them


class RunningBatches:
    """Sums of X quantities and of their squares over sweeps of L chains, in at most 64 batches of equal length.

    Kernels add to `total` and `squares` [L, X], which are those of the sweep that runs.
    """

    def __init__(self, chains: int, width: int) -> None:
        most = max(4, min(_MOST, _MEMORY // max(1, chains * width)))
        self._most = most - most % 2
        self.total = np.zeros((chains, width))
        self.squares = np.zeros((chains, width))
        self._done: list[tuple[FloatArray, FloatArray]] = []
        self.length = 1  # sweeps in a batch
        self._in_batch = 0
        self.sweeps = 0  # that have ended

    @property
    def count(self) -> int:
        """The number of batches that are complete."""
        return len(self._done)

    def end_sweep(self) -> None:
        """Close the sweep, and the batch where it was its last one."""
        self._in_batch += 1
        self.sweeps += 1
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
        """Means and errors from all complete batches but the first part of them; there must be one."""
        kept = self._done[(len(self._done) + _DROPPED - 1) // _DROPPED if len(self._done) > 1 else 0 :]
        total, squares = np.stack([t for t, _ in kept]), np.stack([s for _, s in kept])
        means = total / self.length  # [B, L, X]
        batches, chains, width = means.shape
        mean = means.mean(axis=(0, 1))
        by_batch = means.reshape(-1, width).var(axis=0, ddof=1) / (batches * chains) if batches * chains > 1 else mean
        by_chain = means.mean(axis=0).var(axis=0, ddof=1) / chains if chains > 1 else np.zeros(width)
        # Batches that are shorter than the memory of a chain tell too little, and chains that differ tell the rest.
        # What no chain has met in N sweeps may still have a probability of the order of 1 / N.
        unseen = 1.0 / (batches * chains * self.length)
        error = np.sqrt(np.maximum(by_batch, by_chain) + unseen**2)
        r_hat = split_r_hat(total, squares, self.length)
        return Findings(mean, error, r_hat, effective_samples(total, self.length), batches)
