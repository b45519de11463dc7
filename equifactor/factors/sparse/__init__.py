"""Sparse tables: a default log value, and a list of configurations that have their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.factor_rows import row_sums
from equifactor.graph.small_scopes import without_small_scopes
from equifactor.graph.structured_factor import StructuredFactor, edge_state_ptr, log_number, small
from equifactor.kernels.pointers import place_in_row, ptr_of, row_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from equifactor.base.typing import BoolArray, FloatArray, IntArray, Semiring
    from equifactor.factors.lowering import LoweredBuilder
    from equifactor.graph.factor_rows import FactorRows

_MAX_PAIR = 20.0  # log2 of the entries of the largest table over two variables that lowering makes: 8 MiB.
_BLOCK = 2**22  # Words times assignments that are compared at once: 32 MiB of whole numbers.


@dataclass(frozen=True)
class SparseTable(StructuredFactor):
    """A table of which only some entries are listed; all others have the default value.

    Args:
        configurations: [n, arity] states of the scope's variables, one row per listed entry, each at most once.
        log_values: [n] their log values.
        default: the log value of everything else; `-inf`, a true zero, unless stated.

    Examples:
        >>> from equifactor import FactorGraph, SparseTable
        >>> g = FactorGraph([3] * 20, [(range(20), SparseTable([[0] * 20, [2] * 20], [0.0, 1.0]))])
        >>> g.log_score([2] * 20)
        1.0
    """

    configurations: ArrayLike
    log_values: ArrayLike
    default: float = -np.inf

    kind = "sparse"
    has_kernels = True
    moves = "equifactor.factors.sparse.sparse_moves:sparse_moves"
    tensors = "equifactor.factors.sparse.sparse_tensors:SparseTensors"
    comparison = "equifactor.factors.sparse.sparse_comparison:SparseComparison"

    def row(self, card: tuple[int, ...]) -> tuple[FloatArray, IntArray]:
        """Return the default, then the listed values; the configurations one after the other."""
        try:
            listed = np.asarray(self.configurations)
            values = np.asarray(self.log_values, float)
        except (TypeError, ValueError, OverflowError):
            raise ModelError("A sparse table needs configurations [n, arity] and n log values.") from None
        if listed.size == 0:
            listed = np.zeros((0, len(card)), np.int64)
        if listed.ndim != 2 or listed.shape[1] != len(card) or not np.issubdtype(listed.dtype, np.integer):
            raise ModelError(
                f"A sparse table over {len(card)} variables needs configurations of shape [n, {len(card)}] in whole "
                f"numbers, found {listed.dtype} of shape {listed.shape}."
            )
        if values.shape != (len(listed),):
            raise ModelError(f"{len(listed)} configurations need {len(listed)} log values, found shape {values.shape}.")
        default = log_number(self.default, "The default of a sparse table")
        return np.concatenate(([default], values)), listed.astype(np.int64).ravel()

    @classmethod
    def of_row(cls, card: tuple[int, ...], log_values: FloatArray, words: IntArray) -> SparseTable:
        """Return the object, with configurations as rows."""
        listed = words.reshape(len(log_values) - 1, len(card))
        return cls(listed, log_values[1:], float(log_values[0]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseTable):
            return NotImplemented
        return self.default == other.default and all(
            np.array_equal(np.asarray(a), np.asarray(b))
            for a, b in ((self.configurations, other.configurations), (self.log_values, other.log_values))
        )

    __hash__ = None  # type: ignore[assignment]  # it holds arrays

    @classmethod
    def check(cls, rows: FactorRows) -> tuple[int, str] | None:
        """Require one value more than configurations, states in range, and no configuration twice."""
        listed = np.diff(rows.value_ptr) - 1
        bad = (listed < 0) | (np.diff(rows.word_ptr) != listed * rows.arity)
        if bad.any():
            n = int(np.argmax(bad))
            return n, f"{listed[n]} configurations of {rows.arity[n]} states were expected, found other numbers"
        out = (rows.words < 0) | (rows.words >= rows.card[_edge_of_word(rows)])
        if out.any():
            w = int(np.argmax(out))
            edge = int(_edge_of_word(rows)[w])
            row = int(rows.row_of_edge[edge])
            return row, f"a configuration has state {rows.words[w]} of a variable with {rows.card[edge]} states"
        return _repeated(rows)

    @classmethod
    def log_scores(cls, rows: FactorRows, states: IntArray) -> FloatArray:
        """Return [n, N] the value of the configuration that is met, or the default."""
        scores = np.tile(rows.log_values[rows.value_ptr[:-1]], (len(states), 1))
        edge, ptr, owner, value = _edge_of_word(rows), _word_ptr(rows), _row_of_listed(rows), _listed_values(rows)
        block = max(1, _BLOCK // max(1, len(rows.words)))
        for n in range(0, len(states), block):
            differing = row_sums((states[n : n + block][:, edge] != rows.words).T.astype(np.int64), ptr)  # [listed, n]
            met, at = np.nonzero(differing == 0)
            scores[n + at, owner[met]] = value[met]
        return scores

    @classmethod
    def sliced(cls, rows: FactorRows, states: IntArray) -> FactorRows:
        """Return the configurations that agree with the observed states, over the free variables."""
        free = states < 0
        seen = np.where(free, -1, states)[_edge_of_word(rows)]
        agree = row_sums(((seen >= 0) & (seen != rows.words)).astype(np.int64), _word_ptr(rows)) == 0
        left = _with_listed(rows, agree).keep_edges(free)
        kept = free[_edge_of_word(rows)] & np.repeat(agree, np.diff(_word_ptr(rows)))
        words = ptr_of((np.diff(left.value_ptr) - 1) * left.arity)
        return without_small_scopes(cls, left.with_words(words, rows.words[kept]))

    @classmethod
    def unsupported(cls, rows: FactorRows, possible: BoolArray) -> BoolArray:
        """Exclude a state without a listed configuration above zero, unless the default is above zero and applies."""
        first = edge_state_ptr(rows)
        edge = _edge_of_word(rows)
        at = first[edge] + rows.words  # the edge state of each word
        alive = row_sums((~possible[at]).astype(np.int64), _word_ptr(rows)) == 0
        zero = np.isneginf(_listed_values(rows))
        counted = np.repeat(alive & ~zero, np.diff(_word_ptr(rows)))
        supports = np.bincount(at[counted], minlength=len(possible))
        counted = np.repeat(alive & zero, np.diff(_word_ptr(rows)))
        blocked = np.bincount(at[counted], minlength=len(possible))
        choices = row_sums(possible.astype(np.int64), first)  # [e] states left of each edge's variable
        log_all = rows.sum_of_edges(np.log2(np.maximum(choices, 1)))
        others = np.exp2(np.minimum(log_all[rows.row_of_edge] - np.log2(np.maximum(choices, 1)), 60.0))
        row = rows.row_of_edge[row_of(first)]
        has_default = ~np.isneginf(rows.log_values[rows.value_ptr[:-1]])[row]
        by_default = has_default & (np.repeat(np.round(others), rows.card) > supports + blocked)
        return (supports == 0) & ~by_default

    @classmethod
    def with_states(cls, rows: FactorRows, new_state: IntArray, new_card: IntArray) -> FactorRows:
        """Return renumbered configurations, without those that name a state that is struck out."""
        words = new_state[edge_state_ptr(rows)[_edge_of_word(rows)] + rows.words]
        agree = row_sums((words < 0).astype(np.int64), _word_ptr(rows)) == 0
        kept = np.repeat(agree, np.diff(_word_ptr(rows)))
        fewer = replace(_with_listed(rows, agree), card=new_card)
        return fewer.with_words(ptr_of((np.diff(fewer.value_ptr) - 1) * fewer.arity), words[kept])

    @classmethod
    def with_slots(cls, rows: FactorRows, edge: IntArray) -> FactorRows:
        """Move the columns of the configurations along with the variables."""
        source = np.repeat(_word_ptr(rows)[:-1], np.diff(_word_ptr(rows)))  # where each configuration begins
        old = edge[_edge_of_word(rows)] - rows.scope_ptr[rows.row_of_edge[_edge_of_word(rows)]]
        moved = replace(rows, scope_vars=rows.scope_vars[edge], card=rows.card[edge])
        return moved.with_words(rows.word_ptr, rows.words[source + old])

    @classmethod
    def fits_table(cls, rows: FactorRows, semiring: Semiring) -> BoolArray:
        """Return whether the table is small, or smaller than its selector's tables."""
        return small(rows) | _better_as_tables(rows)

    @classmethod
    def add_chains(cls, builder: LoweredBuilder, rows: FactorRows) -> None:
        """Add a selector whose states are the listed configurations and, if the default counts, boxes of the rest."""
        from equifactor.factors.sparse.sparse_boxes import add_selectors

        add_selectors(builder, rows)


def _better_as_tables(rows: FactorRows) -> BoolArray:
    """Return [N] whether the table is at most as large as a selector's tables, or is over two variables."""
    listed = np.diff(rows.value_ptr)  # and one more, for the rest
    bits = rows.sum_of_edges(np.log2(rows.card))
    tables = np.log2(listed * (1.0 + rows.sum_of_edges(rows.card)))
    # Dual ascent and search treat a pair far better than a selector that hides it.
    is_pair = (rows.arity == 2) & (bits <= _MAX_PAIR)
    return np.asarray((bits <= tables) | is_pair)


def _listed_values(rows: FactorRows) -> FloatArray:
    """Return [listed] the log values of all configurations."""
    is_head = np.zeros(len(rows.log_values), bool)
    is_head[rows.value_ptr[:-1]] = True
    return rows.log_values[~is_head]


def _row_of_listed(rows: FactorRows) -> IntArray:
    """Return [listed] the factor of each configuration."""
    return np.repeat(np.arange(rows.num_factors), np.diff(rows.value_ptr) - 1)


def _word_ptr(rows: FactorRows) -> IntArray:
    """Return [listed+1] the words of each configuration."""
    return ptr_of(rows.arity[_row_of_listed(rows)])


def _edge_of_word(rows: FactorRows) -> IntArray:
    """Return [w] the edge whose state each word is."""
    owner = _row_of_listed(rows)
    ptr = ptr_of(rows.arity[owner])
    return np.repeat(rows.scope_ptr[owner], np.diff(ptr)) + place_in_row(ptr)


def _with_listed(rows: FactorRows, kept: BoolArray) -> FactorRows:
    """Return the factors with the values of some configurations [listed] only; words are left to the caller."""
    is_value = np.ones(len(rows.log_values), bool)
    is_head = np.zeros(len(is_value), bool)
    is_head[rows.value_ptr[:-1]] = True
    is_value[~is_head] = kept
    count = np.bincount(_row_of_listed(rows)[kept], minlength=rows.num_factors)
    return rows.with_values(ptr_of(count + 1), rows.log_values[is_value])


def _repeated(rows: FactorRows) -> tuple[int, str] | None:
    """Return the first factor that lists a configuration twice."""
    owner, ptr = _row_of_listed(rows), _word_ptr(rows)
    arity = np.diff(ptr)
    bad = np.zeros(rows.num_factors, bool)
    for k in np.unique(arity).tolist():
        members = np.flatnonzero(arity == k)
        listed = rows.words[ptr[members][:, None] + np.arange(k)]  # [listed, k]
        keyed = np.column_stack((owner[members], listed))
        keyed = keyed[np.lexsort(keyed.T[::-1])]
        bad[keyed[1:, 0][(keyed[1:] == keyed[:-1]).all(axis=1)]] = True
    if not bad.any():
        return None
    n = int(np.argmax(bad))
    listed = rows.words[rows.word_ptr[n] : rows.word_ptr[n + 1]].reshape(-1, max(1, int(rows.arity[n])))
    unique, count = np.unique(listed, axis=0, return_counts=True)
    return n, f"a sparse table lists configuration {unique[np.argmax(count)].tolist()} twice"
