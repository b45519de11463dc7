"""Sums over batches of sweeps, for a run whose length is not known at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.solvers.sampling.diagnostics import effective_samples, split_r_hat

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

_MOST = 64  # Batches at most; then pairs of batches are joined. Chosen by hand.
_MEMORY = 2**23  # Numbers that all batches keep at most: 64 MiB.
_UNMIXED_SHARE = 0.5  # The squared error of unmixed chains over their variance; measured on strips, which are known.
UNSEEN = 1.5  # Two standard errors of a state that N draws have not met are 3 / N, by the rule of three.
_LONG_BATCHES = 4  # Batches of each chain in the estimate of errors from long batches. Chosen by hand.
# Quantiles (97.5 %) of Student's distribution with 2, 3, .. degrees of freedom; the last is that of the normal. For two
# chains, with one degree of freedom, the first is used: their batches tell more than their means.
_STUDENT = (4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 1.96)
_MIXED = 1.05, 1.5  # Values of R-hat at which chains count as fully mixed, and as not mixed at all. Chosen by hand.


class Findings(NamedTuple):
    """The mean of every quantity over all chains, and its diagnostics."""

    mean: FloatArray  # [X]
    error: FloatArray  # [X] the standard error of the mean
    r_hat: FloatArray  # [X] see `split_r_hat`
    effective: FloatArray  # [X] see `effective_samples`
    batches: int  # the number of batches per chain behind them
    chains: int  # the number of chains


class RunningBatches:
    """Sums of X quantities and of their squares over sweeps of L chains, in at most 64 batches of equal length.

    Kernels add to `total` and `squares` [L, X], the sums of the current batch.

    Args:
        chains: L.
        width: X.
        length: sweeps in the first batches; it doubles when there are too many batches.
        dropped: the first 1/dropped of the batches is left out, because it depends on the starts; 0 to keep all.
        fresh: the share of an independent draw that one sweep is worth at most.
    """

    def __init__(self, chains: int, width: int, length: int = 1, dropped: int = 8, fresh: float = 1.0) -> None:
        most = max(4, min(_MOST, _MEMORY // max(1, chains * width)))
        self._most = most - most % 2
        self._dropped = dropped
        self._fresh = fresh
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
        batches, chains = means.shape[:2]
        mean = means.mean(axis=(0, 1))
        r_hat, mixed = split_r_hat(total, squares, self.length), squared_errors(means)
        effective = effective_samples(mean, mixed)
        draws = self._fresh * batches * chains * self.length
        unseen = UNSEEN * max(1.0 / draws, float((1.0 / np.maximum(effective, 1.0)).sum()) / max(1, len(mean)))
        error = np.sqrt(widened(mixed, means.mean(axis=0), r_hat) + unseen**2)
        return Findings(mean, error, r_hat, effective, batches, chains)


def squared_errors(means: FloatArray) -> FloatArray:
    """[X] squared errors of the mean of B batches of L independent chains [B, L, X], if the chains have mixed.

    Batches shorter than the autocorrelation of a chain understate the error. Long batches and whole chains do not, but
    are few. The largest of the three estimates counts, with a factor for the small number of chains.
    """
    batches, chains, width = means.shape
    if batches * chains == 1 or not width:
        return means[0, 0]  # A guess: the chain may have moved at its first step.
    found = _variance_of_mean(means.reshape(-1, width))
    if batches >= 2 * _LONG_BATCHES:
        long = means[batches % _LONG_BATCHES :].reshape(_LONG_BATCHES, -1, chains, width).mean(axis=1)
        found = np.maximum(found, _variance_of_mean(long.reshape(-1, width)))
    if chains > 1:
        few = _STUDENT[min(max(chains - 3, 0), len(_STUDENT) - 1)] / _STUDENT[-1]
        found = np.maximum(found, few**2 * _variance_of_mean(means.mean(axis=0)))
    return found


def _variance_of_mean(values: FloatArray) -> FloatArray:
    """[X] the variance of the mean of n independent values [n, X]."""
    return np.asarray(values.var(axis=0, ddof=1)) / len(values)


def widened(variance: FloatArray, chain: FloatArray, r_hat: FloatArray) -> FloatArray:
    """[X] squared errors of means of L chains, larger where the chains have not mixed.

    Chains that have not mixed are not L independent samples of the model: each is in a mode of its own, and their
    distance from each other estimates the error of all. The weights of the modes are unknown, so that two standard
    errors reach as far as the chain that is farthest from the mean. Quantities on which the chains agree depend on the
    modes as well. So if many quantities have not mixed, no error stays far below the average.

    Args:
        variance: [X] squared errors if the chains had mixed.
        chain: [L, X] the means of the chains.
        r_hat: [X] see `split_r_hat`.
    """
    if len(chain) == 1 or not len(variance):
        return variance
    low, high = _MIXED
    apart = np.clip((r_hat - low) / (high - low), 0.0, 1.0)
    between = _UNMIXED_SHARE * chain.var(axis=0, ddof=1)
    farthest = (0.5 * np.abs(chain - chain.mean(axis=0)).max(axis=0)) ** 2
    spread = np.maximum(variance, apart * np.maximum(between, farthest))
    return np.maximum(spread, apart.mean() * spread.mean())
