"""How far several Markov chains agree, and how much they know: split R-hat and effective sample size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray


_NOTHING = 1e-12  # A variance below this is that of a constant.


def split_r_hat(total: FloatArray, squares: FloatArray, length: int) -> FloatArray:
    """[X] R-hat of each quantity, every chain cut into two halves (Eq. 4 of [Gelman13], section 11.4).

    It is 1 for a quantity that never varies, and infinite when chains are constant and differ.

    Args:
        total: [B, C, X] sums of the quantities over each of B batches of C chains.
        squares: [B, C, X] sums of their squares.
        length: the number of draws in a batch.
    """
    half = len(total) // 2
    if half == 0:
        return np.full(total.shape[-1], np.inf)
    n = half * length
    mean = _halves(total, half) / n
    within = (np.maximum(_halves(squares, half) / n - mean**2, 0.0) * (n / max(1, n - 1))).mean(axis=0)
    between = mean.var(axis=0, ddof=1)  # This is B / n in the symbols of the book.
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = np.sqrt((n - 1) / n + between / within)
    return np.where(within > _NOTHING, r_hat, np.where(between > _NOTHING, np.inf, 1.0))


def effective_samples(total: FloatArray, length: int) -> FloatArray:
    """[X] how many independent draws of the states would give marginals as precise, by batch means.

    The variance of a marginal p estimated from N independent draws is p (1 - p) / N; that of our estimate is the
    variance of the B C batch means over their number. Rao-Blackwell estimates can be worth more than their draws. The
    result is infinite for a quantity that never varies.

    Args:
        total: [B, C, X] sums of the quantities over each of B batches of C chains.
        length: the number of draws in a batch.
    """
    batches, chains, width = total.shape
    count = batches * chains
    if count < 2:
        return np.zeros(width)
    means = total.reshape(count, width) / length
    p = means.mean(axis=0)
    variance = means.var(axis=0, ddof=1) / count
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = p * (1.0 - p) / variance
    return np.where(variance > _NOTHING**2, worth, np.inf)


def _halves(sums: FloatArray, half: int) -> FloatArray:
    """[2 C, X] sums over the first and the second half of the batches."""
    return np.concatenate((sums[:half].sum(axis=0), sums[half : 2 * half].sum(axis=0)))
