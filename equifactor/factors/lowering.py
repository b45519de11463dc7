"""Small dense tables with auxiliary variables in place of structured factors.

Where the product is not zero, an auxiliary variable is a function of the original variables, or summing it out gives
the factor itself. So ln Z, marginals and the best score are those of the original graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.factor_rows import by_shape
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_rows import FactorRows
    from equifactor.graph.structured_factor import StructuredFactor


@dataclass(frozen=True, eq=False)
class LoweredTables:
    """Tables that replace some factors. Auxiliary variables are numbered from 0 and written as -1 - number."""

    scope_ptr: IntArray  # [n+1]
    scope_vars: IntArray  # [e] variables of the graph, or -1 - number of an auxiliary variable
    log_tables: FloatArray  # all tables one after the other
    aux_card: IntArray  # [m] number of states of each auxiliary variable


class LoweredBuilder:
    """A collection of auxiliary variables and of blocks of tables with equal shapes.

    Args:
        limit: the most entries that all tables together may have; one more raises `ModelError` before it is made.
        entries: the number of entries that exist already.

    `advice` is the end of that error: what to do about the factors that are being added.
    """

    def __init__(self, limit: int, entries: int = 0) -> None:
        self._limit, self._entries = limit, entries
        self.advice = ""
        self._arity: list[IntArray] = []
        self._scopes: list[IntArray] = []
        self._tables: list[FloatArray] = []
        self._aux: list[IntArray] = []
        self._num_aux = 0

    def expect(self, entries: float) -> None:
        """Raise `ModelError` if this many more entries are too many; called before anything of that size is made."""
        total = self._entries + entries
        if total > self._limit:
            raise ModelError(
                f"In dense tables the factors would have at least 2^{np.log2(total):.1f} entries, and at most "
                f"2^{np.log2(self._limit):.0f} are allowed. {self.advice}".rstrip()
            )

    def auxiliary(self, card: IntArray) -> IntArray:
        """Add variables of these cardinalities [n], and return how scopes name them [n]."""
        names = -1 - (self._num_aux + np.arange(len(card)))
        self._aux.append(np.asarray(card, np.int64))
        self._num_aux += len(card)
        return names

    def add(self, scopes: IntArray, log_tables: FloatArray) -> None:
        """Add factors with scopes [n, k] and log tables [n, d1, .., dk], or one table [d1, .., dk] for all of them."""
        count, arity = scopes.shape
        shape = log_tables.shape[log_tables.ndim - arity :]
        entries = count * math.prod(shape)
        self.expect(entries)
        self._entries += entries
        self._arity.append(np.full(count, arity, np.int64))
        self._scopes.append(scopes.ravel())
        tables = np.broadcast_to(log_tables, (count, *shape))
        self._tables.append(np.asarray(tables, np.float64).ravel())

    def add_tables(self, cls: type[StructuredFactor], rows: FactorRows) -> None:
        """Add every factor, all of them of one class, as its own table."""
        self.expect(np.exp2(rows.sum_of_edges(np.log2(rows.card))).sum() if rows.num_factors else 0)
        for group in by_shape(rows):
            members = rows.take(group)
            self.add(members.scope_vars.reshape(len(group), -1), cls.tables(members))

    def add_chain(self, rows: FactorRows, steps: FloatArray, start: FloatArray, end: FloatArray) -> None:
        """Add factors over two or more binary variables as walks of an automaton of two states along their scopes.

        Args:
            rows: the factors.
            steps: [e, 2, 2, 2] log weight of (state before, state of the variable, state after) at each edge.
            start: [N, 2] log weight of each first state.
            end: [N, 2] log weight of each last state.
        """
        if not rows.num_factors:
            return
        self.expect(8 * len(rows.card) - 8 * rows.num_factors)  # two tables per factor have 4 entries, all others 8
        first, last = rows.scope_ptr[:-1], rows.scope_ptr[1:] - 1
        inner = np.ones(len(rows.card), bool)  # every edge but the last of its factor has an auxiliary variable
        inner[last] = False
        after = np.zeros(len(inner), np.int64)
        after[inner] = self.auxiliary(np.full(int(inner.sum()), 2))
        inner[first] = False
        middle = np.flatnonzero(inner)
        x = rows.scope_vars
        self.add(np.stack((x[first], after[first]), 1), _log_sum(start[:, :, None, None] + steps[first], 1))
        self.add(np.stack((after[middle - 1], x[middle], after[middle]), 1), steps[middle])
        self.add(np.stack((after[last - 1], x[last]), 1), _log_sum(steps[last] + end[:, None, None, :], 3))

    def finish(self) -> LoweredTables:
        """Return all blocks one after the other."""
        return LoweredTables(
            ptr_of(_end_to_end(self._arity, np.int64)),
            _end_to_end(self._scopes, np.int64),
            _end_to_end(self._tables, np.float64),
            _end_to_end(self._aux, np.int64),
        )


def _end_to_end(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    """Return the parts one after the other; one part alone is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype), *parts])


def _log_sum(values: FloatArray, axis: int) -> FloatArray:
    """Return ln of the sum of exp(values) along an axis of two; -inf if both are."""
    low, high = np.sort(values, axis=axis).take(0, axis), values.max(axis=axis)
    gap = np.where(np.isneginf(low), -np.inf, low - np.where(np.isneginf(high), 0.0, high))
    return np.asarray(high + np.log1p(np.exp(gap)))
