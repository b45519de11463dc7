"""Counting factors: a log value by the number of literals that hold; at most k, at least k, exactly k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.factors.signed_literals import SignedLiterals
from equifactor.graph.small_scopes import without_small_scopes
from equifactor.graph.structured_factor import (
    StructuredFactor,
    check_signs,
    log_number,
    not_binary,
    number_of_values,
    number_of_words,
    read_signs,
)
from equifactor.kernels.pointers import picked, ptr_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.factors.lowering import LoweredBuilder
    from equifactor.graph.factor_rows import FactorRows


class Counting(SignedLiterals):
    """The kind behind `Count`, `AtMost`, `AtLeast` and `Exactly`: they are stored alike."""

    kind = "count"
    has_kernels = True
    moves = "equifactor.factors.count.count_moves:count_moves"
    tensors = "equifactor.factors.count.count_tensors:CountTensors"
    comparison = "equifactor.factors.count.count_comparison:CountComparison"

    @classmethod
    def of_row(cls, card: tuple[int, ...], log_values: FloatArray, words: IntArray) -> StructuredFactor:
        """Return the object; signs are left out if all variables are counted in state 1."""
        return Count(tuple(log_values.tolist()), None if words.all() else tuple((words == 1).tolist()))

    @classmethod
    def check(cls, rows: FactorRows) -> tuple[int, str] | None:
        """Require binary variables, a value for every number of ones, and a sign per variable."""
        return (
            not_binary(rows, cls.kind)
            or number_of_values(rows, rows.arity + 1, "log values of a count")
            or number_of_words(rows, rows.arity, "signs of a count")
            or check_signs(rows, rows.words)
        )

    @classmethod
    def log_scores(cls, rows: FactorRows, states: IntArray) -> FloatArray:
        """Return [n, N] the value of the number of literals that hold."""
        holding = cls.holding(rows, states)
        return rows.log_values[rows.value_ptr[:-1] + holding]

    @classmethod
    def sliced(cls, rows: FactorRows, states: IntArray) -> FactorRows:
        """Return counts over the free variables; their values start at the number of observed literals that hold."""
        free = states < 0
        left = rows.keep_edges(free)
        begin = rows.value_ptr[:-1] + rows.sum_of_edges((states == rows.words).astype(np.int64))
        value_ptr = ptr_of(left.arity + 1)
        place = np.repeat(begin - value_ptr[:-1], left.arity + 1) + np.arange(value_ptr[-1])
        fewer = left.with_values(value_ptr, rows.log_values[place]).with_words(left.scope_ptr, rows.words[free])
        return without_small_scopes(cls, fewer)

    @classmethod
    def unsupported(cls, rows: FactorRows, possible: BoolArray) -> BoolArray:
        """Exclude a state if no number of ones within reach has a value above zero."""
        pairs = possible.reshape(-1, 2)
        edge, row = np.arange(len(pairs)), rows.row_of_edge
        can_hold, can_fail = pairs[edge, rows.words], pairs[edge, 1 - rows.words]
        least = rows.sum_of_edges((can_hold & ~can_fail).astype(np.int64))[row]
        most = rows.sum_of_edges(can_hold.astype(np.int64))[row]
        finite = ptr_of(rows.log_values > -np.inf)  # [t+1] values above zero before each one

        def within_reach(low: IntArray, high: IntArray) -> BoolArray:
            first = rows.value_ptr[row]
            found: BoolArray = (high >= low) & (finite[first + np.maximum(high, low) + 1] > finite[first + low])
            return found

        # The other variables give from `rest_low` to `rest_high`.
        rest_low, rest_high = least - (can_hold & ~can_fail), most - can_hold
        lost = np.empty_like(pairs)
        lost[edge, rows.words] = ~within_reach(rest_low + 1, rest_high + 1)
        lost[edge, 1 - rows.words] = ~within_reach(rest_low, rest_high)
        return lost.ravel()

    @classmethod
    def add_chains(cls, builder: LoweredBuilder, rows: FactorRows) -> None:
        """Add a chain of running counts; all counts from which on the values are equal share one state."""
        caps = _caps(rows)
        builder.expect(_chain_entries(rows.arity, caps).sum())
        sizes = np.stack((rows.arity, caps), axis=1)
        for arity, cap in np.unique(sizes, axis=0).tolist():
            _add_counts(builder, rows.take(np.flatnonzero((sizes == (arity, cap)).all(axis=1))), cap)


@dataclass(frozen=True)
class Count(Counting):
    """Any function of how many of its binary variables are one.

    Args:
        log_values: the log value of 0, 1, .., arity ones; `-inf` is a true zero.
        signs: for each variable whether it is counted in state 1 (True) or in state 0 (False).

    Examples:
        >>> from equifactor import Count, FactorGraph
        >>> g = FactorGraph([2, 2, 2], [([0, 1, 2], Count([0.0, 1.0, 3.0, 4.0]))])
        >>> g.log_score([1, 0, 1])
        3.0
    """

    log_values: ArrayLike
    signs: Sequence[bool] | None = None

    def row(self, card: tuple[int, ...]) -> tuple[FloatArray, IntArray]:
        """Return the value of every number of ones; one sign per variable."""
        arity = len(card)
        try:
            values = np.array([log_number(v, "A log value of a count") for v in np.asarray(self.log_values).tolist()])
        except (TypeError, ValueError):
            values = np.zeros(0)
        if values.shape != (arity + 1,):
            raise ModelError(
                f"A count over {arity} variables needs {arity + 1} log values, for 0 to {arity} ones, "
                f"found {brief(self.log_values)}."
            )
        return values, read_signs(self.signs, arity, self.kind)


@dataclass(frozen=True)
class AtMost(Counting):
    """At most k of its binary variables are one, or in state 0 where `signs` is False."""

    k: int
    signs: Sequence[bool] | None = None

    def row(self, card: tuple[int, ...]) -> tuple[FloatArray, IntArray]:
        """Return 0 up to k ones."""
        return _row(np.arange(len(card) + 1) <= _whole(self.k), self.signs)


@dataclass(frozen=True)
class AtLeast(Counting):
    """At least k of its binary variables are one, or in state 0 where `signs` is False."""

    k: int
    signs: Sequence[bool] | None = None

    def row(self, card: tuple[int, ...]) -> tuple[FloatArray, IntArray]:
        """Return 0 from k ones on."""
        return _row(np.arange(len(card) + 1) >= _whole(self.k), self.signs)


@dataclass(frozen=True)
class Exactly(Counting):
    """Exactly k of its binary variables are one, or in state 0 where `signs` is False."""

    k: int
    signs: Sequence[bool] | None = None

    def row(self, card: tuple[int, ...]) -> tuple[FloatArray, IntArray]:
        """Return 0 at k ones."""
        return _row(np.arange(len(card) + 1) == _whole(self.k), self.signs)


def _whole(k: object) -> int:
    """Return a number of variables that a user gave."""
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 0:
        raise ModelError(f"A count must be a whole number >= 0, found {brief(k)}.")
    return int(k)


def _row(allowed: BoolArray, signs: Sequence[bool] | None) -> tuple[FloatArray, IntArray]:
    """Return the values 0 and -inf of every number of ones [arity + 1], and the signs."""
    return np.where(allowed, 0.0, -np.inf), read_signs(signs, len(allowed) - 1, Counting.kind)


def _caps(rows: FactorRows) -> IntArray:
    """Return [N] the least number of ones from which on all values are equal: larger counts need not be told apart."""
    last = rows.log_values[rows.value_ptr[1:] - 1]
    differs = rows.log_values != np.repeat(last, rows.arity + 1)
    place = np.arange(len(differs)) - np.repeat(rows.value_ptr[:-1], rows.arity + 1)
    caps = np.zeros(rows.num_factors, np.int64)
    np.maximum.at(caps, np.repeat(np.arange(rows.num_factors), rows.arity + 1), np.where(differs, place + 1, 0))
    return caps


def _chain_entries(arity: IntArray, caps: IntArray) -> FloatArray:
    """Return [N] how many entries the tables of each chain have, as a float because there may be very many."""
    last = arity - 1.0
    rising = np.minimum(caps, last)  # links at which the counter has one state more after than before
    # A link from j + 1 to j + 2 states has 2 (j + 1) (j + 2) entries; the last table has no counter after it.
    growing = 2.0 * rising * (rising + 1.0) * (rising + 2.0) / 3.0
    return np.asarray(growing + (last - rising) * 2.0 * (rising + 1.0) ** 2 + 2.0 * (rising + 1.0))


def _add_counts(builder: LoweredBuilder, rows: FactorRows, cap: int) -> None:
    """Add chains of running counts up to `cap` for factors of one arity."""
    count, arity = rows.num_factors, int(rows.arity[0])
    variables, signs = rows.scope_vars.reshape(count, arity), rows.words.reshape(count, arity)
    _, places = picked(rows.value_ptr, np.arange(count))
    values = rows.log_values[places].reshape(count, arity + 1)[:, : cap + 1]
    before, num_before = np.zeros((count, 0), np.int64), 1  # the counter so far, and how many states it has
    for j in range(arity - 1):
        num_after = min(j + 1, cap) + 1
        after = builder.auxiliary(np.full(count, num_after))[:, None]
        for sign in (0, 1):  # one table for all factors whose variable has this sign
            members = np.flatnonzero(signs[:, j] == sign)
            table = np.full((num_before, 2, num_after), -np.inf)
            for x in (0, 1):
                old = np.arange(num_before)
                table[old, x, np.minimum(old + (x == sign), cap)] = 0.0
            scopes = np.hstack((before, variables[:, j : j + 1], after))[members]
            builder.add(scopes, table if j else table[0])
        before, num_before = after, num_after
    table = np.empty((count, num_before, 2))
    for x in (0, 1):
        held = np.minimum(np.arange(num_before) + (signs[:, -1:] == x), cap)  # [N, states of the counter]
        table[:, :, x] = np.take_along_axis(values, held, axis=1)
    builder.add(np.hstack((before, variables[:, -1:])), table)
