"""Factors of any kind as rows of flat arrays, and how rows are picked, changed and merged.

A factor has a kind, a scope, log values and words. The log values are its potentials, which a network may provide. The
words are whole numbers that are part of the structure, such as signs of literals or listed configurations. A table has
one value per entry and no words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from equifactor.kernels.pointers import picked, ptr_of, row_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray

Element = TypeVar("Element", bound=np.generic)


@dataclass(frozen=True, eq=False)
class FactorRows:
    """N factors one after the other; e edges, t values and w words in all."""

    kind: IntArray  # [N] number of the kind, as in `kinds.KINDS`
    scope_ptr: IntArray  # [N+1]
    scope_vars: IntArray  # [e]
    value_ptr: IntArray  # [N+1]
    log_values: FloatArray  # [t]
    word_ptr: IntArray  # [N+1]
    words: IntArray  # [w]
    card: IntArray  # [e] number of states of each edge's variable

    @classmethod
    def of_tables(cls, scope_ptr: IntArray, scope_vars: IntArray, log_values: FloatArray, card: IntArray) -> FactorRows:
        """Return dense tables whose log values follow each other; `card` [e] are the cardinalities of the scopes."""
        count = len(scope_ptr) - 1
        none = np.zeros(count + 1, np.int64)
        sizes = np.ones(count, np.int64)
        filled = np.diff(scope_ptr) > 0
        if filled.any():
            sizes[filled] = np.multiply.reduceat(card, scope_ptr[:-1][filled])
        return cls(none[:-1], scope_ptr, scope_vars, ptr_of(sizes), log_values, none, none[:0], card)

    @property
    def num_factors(self) -> int:
        """N, the number of factors."""
        return len(self.kind)

    @cached_property
    def arity(self) -> IntArray:
        """The number of variables [N] of each factor."""
        return np.diff(self.scope_ptr)

    @cached_property
    def row_of_edge(self) -> IntArray:
        """The factor [e] of each edge, by its place among these rows."""
        return row_of(self.scope_ptr)

    def take(self, rows: IntArray) -> FactorRows:
        """Return some of the factors, in the order of `rows`."""
        if len(rows) == self.num_factors and np.array_equal(rows, np.arange(len(rows))):
            return self
        scope_ptr, edges = picked(self.scope_ptr, rows)
        value_ptr, values = picked(self.value_ptr, rows)
        word_ptr, words = picked(self.word_ptr, rows)
        return FactorRows(
            self.kind[rows],
            scope_ptr, self.scope_vars[edges],
            value_ptr, self.log_values[values],
            word_ptr, self.words[words],
            self.card[edges],
        )  # fmt: skip

    def keep_edges(self, kept: BoolArray) -> FactorRows:
        """Return the same factors with the edges marked in `kept` [e] only; values and words stay as they are."""
        ptr = ptr_of(self.sum_of_edges(kept.astype(np.int64)))
        return replace(self, scope_ptr=ptr, scope_vars=self.scope_vars[kept], card=self.card[kept])

    def with_values(self, value_ptr: IntArray, log_values: FloatArray) -> FactorRows:
        """Return the same factors with other values."""
        return replace(self, value_ptr=value_ptr, log_values=log_values)

    def with_words(self, word_ptr: IntArray, words: IntArray) -> FactorRows:
        """Return the same factors with other words."""
        return replace(self, word_ptr=word_ptr, words=words)

    def as_kind(self, kind: int) -> FactorRows:
        """Return the same arrays under another kind."""
        return replace(self, kind=np.full_like(self.kind, kind))

    def as_tables(self, values: FloatArray) -> FactorRows:
        """Return the same factors as dense tables with the log values [N, size]."""
        no_words = np.zeros(self.num_factors + 1, np.int64)
        sizes = ptr_of(np.full(self.num_factors, values.shape[1]))
        return self.as_kind(0).with_values(sizes, values.ravel()).with_words(no_words, no_words[:0])

    def sum_of_edges(self, values: np.ndarray) -> np.ndarray:
        """Return [N, ..] sums of values [e, ..] over the edges of each factor; 0 for a factor without variables."""
        return row_sums(values, self.scope_ptr)


def by_kind(rows: FactorRows) -> Iterator[tuple[int, IntArray]]:
    """Yield each kind that occurs, and the places of its factors."""
    for number in np.unique(rows.kind).tolist():
        yield number, np.flatnonzero(rows.kind == number)


def by_shape(rows: FactorRows) -> Iterator[IntArray]:
    """Yield the places of the factors in groups of one table shape."""
    for arity in np.unique(rows.arity).tolist():
        members = np.flatnonzero(rows.arity == arity)
        cards = rows.card[rows.scope_ptr[members][:, None] + np.arange(arity)]
        order = np.lexsort(cards.T[::-1]) if arity else np.arange(len(members))
        changes = np.any(np.diff(cards[order], axis=0) != 0, axis=1)
        yield from np.split(members[order], np.flatnonzero(changes) + 1)


def row_sums(values: np.ndarray, ptr: IntArray) -> np.ndarray:
    """Return [N, ..] sums over the rows of a ragged array [n, ..], along its first axis; an empty row sums to 0."""
    total = np.zeros((len(ptr) - 1, *values.shape[1:]), values.dtype)
    filled = np.diff(ptr) > 0
    if filled.any():
        total[filled] = np.add.reduceat(values, ptr[:-1][filled], axis=0)
    return total


def row_any(marked: BoolArray, ptr: IntArray) -> BoolArray:
    """Return [N, ..] whether something is marked in each row of a ragged array [n, ..]."""
    return row_sums(marked.astype(np.int64), ptr) > 0


def merged(parts: Sequence[tuple[IntArray, FactorRows]]) -> FactorRows:
    """Return all rows in one order. Each part comes with the places of its factors; all places together are 0, 1, .."""
    place = np.concatenate([where for where, _ in parts])
    return joined([part for _, part in parts]).take(np.argsort(place))


def joined(rows: Sequence[FactorRows]) -> FactorRows:
    """Return several rows, one after the other."""
    rows = [r for r in rows if r.num_factors] or rows[:1]
    if len(rows) == 1:
        return rows[0]
    return FactorRows(
        np.concatenate([r.kind for r in rows]),
        _joined_ptr([r.scope_ptr for r in rows]), np.concatenate([r.scope_vars for r in rows]),
        _joined_ptr([r.value_ptr for r in rows]), np.concatenate([r.log_values for r in rows]),
        _joined_ptr([r.word_ptr for r in rows]), np.concatenate([r.words for r in rows]),
        np.concatenate([r.card for r in rows]),
    )  # fmt: skip


def _joined_ptr(ptrs: Sequence[IntArray]) -> IntArray:
    return ptr_of(np.concatenate([np.diff(ptr) for ptr in ptrs]))
