"""Sparse tables in searches by single changes: the first word is the key of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.move_rows import MoveRows, value_bounds
from equifactor.graph.factor_rows import row_sums
from equifactor.kernels.pointers import place_in_row, ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.graph.factor_rows import FactorRows


_KEY_BITS = 62  # Configurations of up to this many bits have mixed radix numbers as keys, longer ones random numbers.


def sparse_moves(rows: FactorRows) -> MoveRows:
    """Return the moves of sparse tables.

    Keys of configurations are mixed radix numbers if these fit, and otherwise sums of random numbers modulo 2^64.
    """
    weight = np.zeros((len(rows.card), 2), np.int64)
    fits = (rows.sum_of_edges(np.log2(rows.card)) < _KEY_BITS) & (rows.arity <= _KEY_BITS)
    random = np.random.default_rng(0).integers(-(2**63), 2**63, len(rows.card), np.int64)
    weight[:, 0] = np.where(fits[rows.row_of_edge], _strides(rows, fits), random)

    owner = np.repeat(np.arange(rows.num_factors), np.diff(rows.value_ptr) - 1)  # the factor of each configuration
    word_ptr = ptr_of(rows.arity[owner])
    edge = np.repeat(rows.scope_ptr[owner], np.diff(word_ptr)) + place_in_row(word_ptr)
    keys = row_sums(weight[edge, 0] * rows.words, word_ptr)
    order = np.lexsort((keys, owner))
    is_head = np.zeros(len(rows.log_values), bool)
    is_head[rows.value_ptr[:-1]] = True
    values = rows.log_values.copy()
    values[~is_head] = rows.log_values[~is_head][order]
    low, high = value_bounds(rows)
    turn, base = np.zeros(len(rows.card), np.int64), np.zeros((rows.num_factors, 2), np.int64)
    zero = bool(np.isneginf(values).any())
    return MoveRows(rows, turn, weight, base, values, rows.value_ptr, low, high, zero, keys[order])


def _strides(rows: FactorRows, fits: BoolArray) -> IntArray:
    """Return [e] the product of the cardinalities of later edges of the same factor, if the factor fits [N]."""
    strides = np.ones(len(rows.card), np.int64)
    from_end = np.repeat(rows.scope_ptr[1:], rows.arity) - 1 - np.arange(len(rows.card))
    from_end[~fits[rows.row_of_edge]] = 0
    for n in range(1, int(from_end.max(initial=0)) + 1):
        edge = np.flatnonzero(from_end == n)
        strides[edge] = strides[edge + 1] * rows.card[edge + 1]
    return strides
