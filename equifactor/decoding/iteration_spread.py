"""How the iterations of shots, and with them the times, are spread: the mean and high quantiles.

The lanes of an engine share the work, so that the time of one shot is not measured. All iterations of a code take the
same time, so that the time of a shot is the time of all shots times its share of the iterations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
_STEPS = 16  # The number of intervals of counts for each doubling of the iterations: a count is off by 2 % at most.


def counts_by_iterations(iterations: NDArray[np.integer]) -> list[int]:
    """Return the numbers of shots by intervals of their iterations, which can be added up over runs."""
    return np.bincount(np.rint(_STEPS * np.log2(1.0 + iterations)).astype(int)).tolist()


def added_counts(a: list[int], b: list[int]) -> list[int]:
    """Return the sums of two lists of counts."""
    long, short = (a, b) if len(a) > len(b) else (b, a)
    return [n + (short[k] if k < len(short) else 0) for k, n in enumerate(long)]


def spread_of_counts(counts: list[int]) -> dict[str, float]:
    """Return quantiles of the iterations from the counts of `counts_by_iterations`."""
    total = np.cumsum(counts)
    wanted = {name: int(np.searchsorted(total, q * total[-1])) if sum(counts) else 0 for name, q in QUANTILES.items()}
    return {name: float(np.rint(2.0 ** (place / _STEPS) - 1.0)) for name, place in wanted.items()}


def spread_of_shots(iterations: NDArray[np.integer]) -> dict[str, float]:
    """Return quantiles of the iterations of shots."""
    if not len(iterations):
        return dict.fromkeys(QUANTILES, 0.0)
    return {name: float(np.quantile(iterations, q)) for name, q in QUANTILES.items()}


def spread_text(mean: float, spread: dict[str, float], ms: float, noun: str) -> str:
    """Return a sentence about iterations and milliseconds.

    Args:
        mean: the mean number of iterations.
        spread: quantiles of the iterations.
        ms: the mean number of milliseconds.
        noun: `shot` or `word`.
    """
    each = ms / mean if mean else 0.0
    iterations = ", ".join(f"{name} {value:.4g}" for name, value in spread.items())
    times = ", ".join(f"{name} {value * each:.3g}" for name, value in spread.items())
    return f"{mean:.4g} iterations per {noun} ({iterations}), {ms:.3g} ms per {noun} ({times})"
