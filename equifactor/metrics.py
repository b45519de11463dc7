"""Measures of the error of an answer.

Marginals are compared over *all* variables of the model. An observed variable counts like any other: both sides hold a
point mass there, so it adds 0 to a sum and 1 to the number of variables. The same holds for a variable with a single
state. Pass `variables=graph.free_vars` to leave out observed variables. NaN on either side gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, brief

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.marginals import Marginals


@dataclass(frozen=True)
class Summary:
    """A measure over many graphs. One infinite value makes the mean infinite, so infinite values are also counted."""

    mean: float
    stderr: float  # The standard error of the mean over graphs; NaN for fewer than two graphs or an infinite mean.
    count: int  # The number of graphs.
    num_infinite: int  # The number of graphs whose value is infinite.
    finite_mean: float  # The mean over the other graphs; NaN if there are no others.

    def __str__(self) -> str:
        note = f", {self.num_infinite} infinite" if self.num_infinite else ""
        return f"{self.mean:.4g} +- {self.stderr:.2g} (n={self.count}{note})"


# ---- marginals of one graph ------------------------------------------------------------------------------


def kl(exact: Marginals, estimate: Marginals, *, variables: IntArray | None = None) -> float:
    """Return the mean over variables of `KL(p || q) = sum_x p(x) ln(p(x) / q(x))`, p exact, in nats.

    A state with p = 0 adds 0 for any q. A state with p > 0 and q = 0 makes the result infinite. Without any variables
    the result is 0.
    """
    p, q, ptr = _paired(exact, estimate)
    terms = np.zeros_like(p)
    on = ~(p == 0)  # not `p > 0`, which would drop NaN
    with np.errstate(divide="ignore", invalid="ignore"):
        terms[on] = p[on] * (np.log(p[on]) - np.log(q[on]))
    terms[np.isnan(q)] = np.nan
    return _mean_over_variables(_sum_per_variable(terms, ptr), variables)


def hellinger(exact: Marginals, estimate: Marginals, *, variables: IntArray | None = None) -> float:
    """Return the mean over variables of `sqrt(1/2 sum_x (sqrt p(x) - sqrt q(x))^2)`, in [0, 1]; UAI uses it for MAR."""
    p, q, ptr = _paired(exact, estimate)
    squares = (np.sqrt(p) - np.sqrt(q)) ** 2
    return _mean_over_variables(np.sqrt(0.5 * _sum_per_variable(squares, ptr)), variables)


def rmse(exact: Marginals, estimate: Marginals, *, variables: IntArray | None = None) -> float:
    """Return the root of the mean squared difference over all (variable, state) entries of one graph."""
    total, entries = _squared_error(exact, estimate, variables)
    return math.sqrt(total / entries) if entries else 0.0


def max_error(exact: Marginals, estimate: Marginals, *, variables: IntArray | None = None) -> float:
    """Return the largest absolute difference over all (variable, state) entries; 0 without variables."""
    p, q, ptr = _paired(exact, estimate)
    return float(np.abs(p - q)[_entries_of(ptr, variables)].max(initial=0.0))


def mean_error(exact: Marginals, estimate: Marginals, *, variables: IntArray | None = None) -> float:
    """Return the mean absolute difference over all (variable, state) entries; 0 without variables."""
    p, q, ptr = _paired(exact, estimate)
    entries = _entries_of(ptr, variables)
    return float(np.abs(p - q)[entries].mean()) if entries.any() else 0.0


# ---- many graphs -----------------------------------------------------------------------------------------


def summarize(values: ArrayLike) -> Summary:
    """Return the mean over graphs of one number per graph, with its standard error `std(ddof=1) / sqrt(n)`."""
    values = _numbers(values).ravel()
    n = len(values)
    finite = values[~np.isinf(values)]
    finite_mean = float(finite.mean()) if len(finite) else math.nan
    if len(finite) < n:
        return Summary(math.inf, math.nan, n, n - len(finite), finite_mean)
    stderr = float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return Summary(finite_mean, stderr, n, 0, finite_mean)


@checks_types("exact", "estimate")
def pooled_rmse(exact: Sequence[Marginals], estimate: Sequence[Marginals]) -> Summary:
    """Return the RMSE over all (variable, state) entries of all graphs.

    The weight of a graph is its number of entries. The standard error over graphs comes from the ratio
    (squared error) / (entries), carried through the root: se(mse) / (2 rmse).
    """
    if len(exact) != len(estimate):
        raise ModelError(
            f"pooled_rmse needs one estimate per exact answer, found {len(estimate)} estimates for {len(exact)} "
            "answers."
        )
    pairs = [_squared_error(p, q, None) for p, q in zip(exact, estimate, strict=True)]
    n = len(pairs)
    total, entries = np.array(pairs, float).reshape(n, 2).T
    if n == 0 or entries.sum() == 0:
        return Summary(math.nan if n == 0 else 0.0, math.nan, n, 0, math.nan if n == 0 else 0.0)
    mse = total.sum() / entries.sum()
    root = math.sqrt(mse)
    if n < 2:
        stderr = math.nan
    elif root == 0.0:
        stderr = 0.0
    else:
        residual = total - mse * entries
        stderr = math.sqrt(n / (n - 1) * float(residual @ residual)) / entries.sum() / (2 * root)
    return Summary(root, float(stderr), n, 0, root)


# ---- scores ----------------------------------------------------------------------------------------------


def map_error(score: ArrayLike, optimum: ArrayLike) -> FloatArray:
    """Return the UAI error of assignments, `|(s* - s) / s*|`, from natural log scores s and optimal log scores s*.

    The error is infinite if the assignment has probability zero (s = -inf). If the fraction is undefined, two equal
    scores give 0: both are 0, or both are -inf because no assignment is possible. Any other score against s* = 0 gives
    infinity. To summarise many errors use `summarize`, which counts infinite ones. The shape is that of the arguments.
    """
    s, best = _broadcast(score, optimum)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs((best - s) / best)
    error = np.where(np.isinf(s) | np.isinf(best) | (best == 0), np.inf, error)
    error = np.where(s == best, 0.0, error)
    return np.where(np.isnan(s) | np.isnan(best), np.nan, error)


def uai_score(error: ArrayLike, trivial_error: ArrayLike) -> FloatArray:
    """Return the score of the UAI-2022 competition, `100 (1 - error / trivial_error)` clipped at 0.

    `trivial_error` is the error of the simplest answer, for example uniform marginals. An error of 0 scores 100, even
    if the trivial error is 0 too. An infinite error scores 0. Average the scores over problems.
    """
    err, trivial = _broadcast(error, trivial_error)
    if np.any(err < 0) or np.any(trivial < 0):
        raise ModelError("Errors must be at least 0; found a negative error.")
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.maximum(0.0, 100.0 * (1.0 - err / trivial))
    score = np.where(np.isinf(err), 0.0, np.where(err == 0, 100.0, score))
    return np.where(np.isnan(err) | np.isnan(trivial), np.nan, score)


# ---- shared ----------------------------------------------------------------------------------------------


def _numbers(given: ArrayLike) -> FloatArray:
    try:
        return np.asarray(given, float)
    except Exception:  # a foreign object may raise any error when numpy asks it for numbers
        raise ModelError(f"Expected numbers, found {brief(given)}.") from None


def _broadcast(first: ArrayLike, second: ArrayLike) -> tuple[FloatArray, FloatArray]:
    a, b = _numbers(first), _numbers(second)
    try:
        s, t = np.broadcast_arrays(a, b)
        return s, t
    except ValueError:
        raise ModelError(f"Arrays of the shapes {a.shape} and {b.shape} cannot be compared.") from None


def _paired(exact: Marginals, estimate: Marginals) -> tuple[FloatArray, FloatArray, IntArray]:
    for given in (exact, estimate):
        if not hasattr(given, "ptr"):
            raise ModelError(f"Expected marginals such as result.marginals, found {brief(given)}.")
    if not np.array_equal(exact.ptr, estimate.ptr):
        raise ModelError(
            f"These marginals belong to different models: {len(exact)} variables with {len(exact.values)} states, and "
            f"{len(estimate)} variables with {len(estimate.values)} states."
        )
    return exact.values, estimate.values, exact.ptr


def _sum_per_variable(terms: FloatArray, ptr: IntArray) -> FloatArray:
    return np.add.reduceat(terms, ptr[:-1]) if len(ptr) > 1 else np.zeros(0)


def _mean_over_variables(values: FloatArray, variables: IntArray | None) -> float:
    chosen = values if variables is None else values[_places(variables, len(values))]
    return float(chosen.mean()) if len(chosen) else 0.0


def _places(variables: ArrayLike, count: int) -> IntArray:
    """Return the numbers of the chosen variables, which are given by number or as truth values."""
    try:
        return np.atleast_1d(np.arange(count)[np.asarray(variables)])
    except Exception:  # a foreign object may raise any error when numpy asks it for numbers
        raise ModelError(f"The variables must be numbers from 0 to {count - 1}, found {brief(variables)}.") from None


def _entries_of(ptr: IntArray, variables: IntArray | None) -> BoolArray:
    """Return whether each entry [X] belongs to the chosen variables."""
    wanted = np.full(len(ptr) - 1, variables is None)
    if variables is not None:
        wanted[_places(variables, len(wanted))] = True
    return np.repeat(wanted, np.diff(ptr))


def _squared_error(exact: Marginals, estimate: Marginals, variables: IntArray | None) -> tuple[float, int]:
    p, q, ptr = _paired(exact, estimate)
    entries = _entries_of(ptr, variables)
    return float(np.sum((p - q)[entries] ** 2)), int(np.count_nonzero(entries))
