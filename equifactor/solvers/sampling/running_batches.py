"""Sums over batches of sweeps, for a run whose length is not known at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.solvers.sampling.diagnostics import effective_samples, split_r_hat

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

_MOST = 64  # Batches at most; then pairs of batches are joined. Halved or doubled: error within 15 %.
_MEMORY = 2**23  # Sums that all batches keep at most, beside as many of squares: 128 MiB.
_PIECE = 2**15  # Numbers that are diagnosed at a time: 256 KiB, which stay in the cache.
# The squared error of chains that have not mixed, over their variance. By `benchmarks.coverage`, tuning seeds: `auto`
# on grids with strong couplings.
_UNMIXED_SHARE = 0.45
# The standard error of a probability that N draws have not met, times N: between 1, the standard deviation under a
# uniform prior, and 1.5, half of the rule of three. By `benchmarks.coverage`, tuning seeds.
UNSEEN = 1.2
# Batches of each chain in the estimate of errors from long batches. Halved or doubled: two standard errors cover 97.7
# and 97.6 % of marginals instead of 97.2 % (120 graphs, `benchmarks.coverage`).
_LONG_BATCHES = 4
# Quantiles (97.5 %) of Student's distribution with 2, 3, .. degrees of freedom; the last is that of the normal. For two
# chains, with one degree of freedom, the first is used: their batches tell more than their means.
_STUDENT = (4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 1.96)
# The squared error from chains over that from batches, minus 1, at which chains alone count. The ratio of mixed chains
# lies within about 0.3 of 1. Halved or doubled: errors over standard errors are within 4 % (30 graphs).
_SLOW = 0.5
# Values of R-hat at which chains count as fully mixed, and as not mixed at all. Halved or doubled, minus 1: the same
# coverage of 30 graphs.
_MIXED = 1.05, 1.5


class BatchStatistics(NamedTuple):
    """The mean of every quantity over all chains, and its diagnostics."""

    mean: FloatArray  # [X]
    error: FloatArray  # [X] the standard error of the mean
    r_hat: FloatArray  # [X] see `split_r_hat`
    effective: FloatArray  # [X] see `effective_samples`
    batches: int  # the number of batches per chain behind them
    chains: int  # the number of chains
    slow: float = 0.0  # see `slowness`
    apart: float = 0.0  # the mean of `not_mixed`
    rare: float = 0.0  # the probability of a state of all variables that the draws are just likely to meet
    likely: float = 1.0  # the mean squared error if the chains have mixed and met all states, over that of `error`


class RunningBatches:
    """Sums of X quantities and of their squares over sweeps of L chains, in at most 64 batches of equal length.

    Kernels add to `total` and `squares` [L, X], the sums of the current batch.

    Args:
        chains: L.
        width: X.
        length: sweeps in the first batches; it doubles when there are too many batches.
        dropped: the first 1/dropped of the batches is left out, because it depends on the starts; 0 to keep all. It can
            be changed later.
        fresh: the share of an independent draw that one sweep is worth at most; it can be changed later.
    """

    def __init__(self, chains: int, width: int, length: int = 1, dropped: int = 8, fresh: float = 1.0) -> None:
        most = max(4, min(_MOST, _MEMORY // max(1, chains * width)))
        self._most = most - most % 2
        self.dropped = dropped
        self.fresh = fresh
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
        self._done.append((self.total, self.squares))
        self.total, self.squares = np.zeros(self.total.shape), np.zeros(self.total.shape)
        self._in_batch = 0
        if len(self._done) == self._most:
            pairs = zip(self._done[::2], self._done[1::2], strict=True)
            self._done = [(a + b, c + d) for (a, c), (b, d) in pairs]
            self.length *= 2

    def findings(self) -> BatchStatistics:
        """Return means and errors from all complete batches but the first ones; at least one sweep is needed."""
        if not self._done:  # The first batch is used as it is.
            self.length = self._in_batch
            self.end_sweeps(0)
        drop = self.dropped if len(self._done) > 1 else 0
        kept = self._done[(len(self._done) + drop - 1) // drop if drop else 0 :]
        batches, (chains, width) = len(kept), self.total.shape
        found = np.empty((5, width))
        step = max(1, _PIECE // (batches * chains))
        for first in range(0, width, step):
            piece = slice(first, first + step)
            total, squares = (np.stack([sums[n][:, piece] for sums in kept]) for n in (0, 1))
            means = total / self.length  # [B, L, x]
            r_hat = split_r_hat(total, squares, self.length)
            found[:, piece] = means.mean(axis=(0, 1)), r_hat, squares.sum(axis=(0, 1)), *_variances(means)
        mean, r_hat, square, by_batches, by_chains = found
        slow = _slowness(by_batches, by_chains, batches, chains)
        mixed = _combined(by_batches, by_chains, slow, chains) if chains > 1 and batches * chains > 1 else by_batches
        draws = batches * chains * self.length
        # One over the independent draws that all variables together are worth. Those nearly certain hardly count.
        worth = float(mixed.sum()) / max(float((mean * (1.0 - mean)).sum()), 1e-300)
        rare = max(1.0 / (self.fresh * draws), min(1.0, worth))
        unseen = unseen_errors(mean, square / draws, rare)
        wide = _widened(mixed, by_chains * chains, not_mixed(r_hat)) if chains > 1 else mixed
        error = np.sqrt(wide + unseen**2)
        apart = float(not_mixed(r_hat).sum()) / max(1, len(mean))
        likely = float(mixed.sum()) / max(float((error**2).sum()), 1e-300)
        worth_of_each = effective_samples(mean, mixed)
        return BatchStatistics(mean, error, r_hat, worth_of_each, batches, chains, slow, apart, rare, min(1.0, likely))


def squared_errors(means: FloatArray, slow: float) -> FloatArray:
    """[X] squared errors of the mean of B batches of L independent chains [B, L, X], if the chains have mixed.

    Batches shorter than the autocorrelation of a chain understate the error, long batches do so less, and whole chains
    do not. But whole chains are few, and the largest of several noisy estimates is too large. So chains count only as
    far as they vary more than their batches, then with a factor for their number.

    Args:
        means: [B, L, X] the means of the batches.
        slow: the share with which chains count; see `slowness`.
    """
    by_batches, by_chains = _variances(means)
    return by_batches if means.shape[1] == 1 else _combined(by_batches, by_chains, slow, means.shape[1])


def _variances(means: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[x] squared errors of the mean of batches [B, L, x]: from batches, and from the means of whole chains.

    For a single mean the mean itself is the guess: the chain may have moved at its first step.
    """
    batches, chains, width = means.shape
    if batches * chains == 1 or not width:
        return means[0, 0], means[0, 0]
    by_batches = _from_batches(means)
    return by_batches, variance_of_mean(means.mean(axis=0)) if chains > 1 else by_batches


def with_chains(found: FloatArray, means: FloatArray, slow: float) -> FloatArray:
    """[X] squared errors from batches, with those from the means of whole chains as far as chains are slow.

    Args:
        found: [X] squared errors from batches.
        means: [B, L, X] the means of the batches.
        slow: the share with which chains count; see `slowness`.
    """
    return _combined(found, variance_of_mean(means.mean(axis=0)), slow, means.shape[1])


def _combined(by_batches: FloatArray, by_chains: FloatArray, slow: float, chains: int) -> FloatArray:
    few = _STUDENT[min(max(chains - 3, 0), len(_STUDENT) - 1)] / _STUDENT[-1]
    return (1.0 - slow) * by_batches + slow * few**2 * np.maximum(by_batches, by_chains)


def slowness(means: FloatArray) -> float:
    """Return whether chains vary more than their batches [B, L, X] predict, from 0 to 1, by all quantities together."""
    return _slowness(*_variances(means), *means.shape[:2])


def _slowness(by_batches: FloatArray, by_chains: FloatArray, batches: int, chains: int) -> float:
    if chains == 1 or batches == 1 or not len(by_batches):
        return float(batches == 1)
    ratio = float(by_chains.sum()) / max(float(by_batches.sum()), 1e-300)
    return min(max((ratio - 1.0) / _SLOW, 0.0), 1.0)


def _from_batches(means: FloatArray) -> FloatArray:
    """[X] squared errors of the mean from short batches [B, L, X], or from long ones if they tell of larger errors."""
    batches, chains, width = means.shape
    found, rest = variance_of_mean(means.reshape(-1, width)), batches % _LONG_BATCHES
    if batches < 2 * _LONG_BATCHES:
        return found
    long = means[rest:].reshape(_LONG_BATCHES, -1, chains, width).mean(axis=1)
    return np.maximum(found, (1.0 - rest / batches) * variance_of_mean(long.reshape(-1, width)))


def variance_of_mean(values: FloatArray) -> FloatArray:
    """[X] the variance of the mean of n independent values [n, X]."""
    return np.asarray(values.var(axis=0, ddof=1)) / len(values)


def unseen_errors(mean: FloatArray, square: FloatArray, rare: float) -> FloatArray:
    """[X] standard errors of marginals because of states of all variables that no draw has met.

    Their probability is about `rare`. They move a marginal in proportion to how much the conditional distributions of
    the draws differ: hardly at all if all draws give 0.3, but a state that was certain in all draws may not be certain.

    Args:
        mean: [X] the mean of the conditional distributions.
        square: [X] the mean of their squares.
        rare: the probability of a state that the draws are just likely to meet.
    """
    spread = np.maximum(square - mean**2, 0.0)
    share = (spread + rare) / (np.maximum(mean * (1.0 - mean), spread) + rare)
    return UNSEEN * rare * np.sqrt(share)


def not_mixed(r_hat: FloatArray) -> FloatArray:
    """[X] how far chains are from mixed by their R-hat [X]: 0 for mixed, 1 for not at all."""
    low, high = _MIXED
    return np.clip((r_hat - low) / (high - low), 0.0, 1.0)


def widened(variance: FloatArray, chain: FloatArray, apart: FloatArray) -> FloatArray:
    """[X] squared errors of means of L chains, larger where the chains have not mixed.

    Chains that have not mixed are not L independent samples of the model: each is in a mode of its own. The weights of
    the modes are unknown, so that the error of the mean does not fall with L. Quantities on which the chains agree
    depend on the modes as well. So if many quantities have not mixed, no error stays far below the average.

    Args:
        variance: [X] squared errors if the chains had mixed.
        chain: [L, X] the means of the chains.
        apart: [X] see `not_mixed`.
    """
    if len(chain) == 1 or not len(variance):
        return variance
    return _widened(variance, chain.var(axis=0, ddof=1), apart)


def _widened(variance: FloatArray, between: FloatArray, apart: FloatArray) -> FloatArray:
    if not len(variance):
        return variance
    spread = np.maximum(variance, apart * _UNMIXED_SHARE * between)
    return np.maximum(spread, apart.mean() * spread.mean())
