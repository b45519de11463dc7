"""Diagnostics of several Markov chains: split R-hat and effective sample size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray


R_HAT_LIMIT = 1.05  # The R-hat above which chains have not mixed, between the usual values 1.01 and 1.1.
_NO_VARIANCE = 1e-12  # The variance below which a quantity counts as constant: rounding of numbers up to 1.


def split_r_hat(total: FloatArray, squares: FloatArray, length: int) -> FloatArray:
    """Return [X] R-hat of each quantity, with every chain divided into two halves (Eq. 4 of [Gelman13], section 11.4).

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
    between = mean.var(axis=0, ddof=1)  # B / n in the symbols of the book
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        r_hat = np.sqrt((n - 1) / n + between / within)
    return np.where(within > _NO_VARIANCE, r_hat, np.where(between > _NO_VARIANCE, np.inf, 1.0))


def effective_samples(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return [X] how many independent draws of the states would give equally precise marginals.

    A marginal p estimated from N independent draws has the variance p (1 - p) / N. Rao-Blackwell estimates can be worth
    more than their draws. The result is infinite for a quantity that never varies.

    Args:
        mean: [X] the marginals.
        variance: [X] their squared errors.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        worth = mean * (1.0 - mean) / variance
    return np.where(variance > _NO_VARIANCE**2, worth, np.inf)


def _halves(sums: FloatArray, half: int) -> FloatArray:
    """Return [2 C, X] sums over the first and the second half of the batches."""
    return np.concatenate((sums[:half].sum(axis=0), sums[half : 2 * half].sum(axis=0)))
