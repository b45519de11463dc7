"""Clauses as flat arrays of literals, and as rows of factors."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.clause import Clause
from equifactor.graph.factor_rows import FactorRows
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray


class ClauseStream:
    """The clauses of a file in 8 bytes per literal: literals as in DIMACS files and a 0 after each clause."""

    def __init__(self) -> None:
        self._stream = array("q")
        self._weights = array("d")  # the weight of each clause; empty if clauses have no weights
        self.num_clauses = 0

    def append(self, number: int) -> None:
        """Add a literal, or the 0 at the end of a clause."""
        self._stream.append(number)
        self.num_clauses += number == 0

    def extend(self, numbers: Iterable[bytes], highest: int) -> bool | None:
        """Add many literals and zeros and return whether the last clause is still open.

        If a word is not a number from -highest to highest, add nothing and return None.
        """
        try:
            more = array("q", map(int, numbers))
        except (ValueError, OverflowError):
            return None
        values = np.frombuffer(more, np.int64)
        if values.max(initial=0) > highest or values.min(initial=0) < -highest:
            return None
        self._stream.extend(more)
        self.num_clauses += len(values) - int(np.count_nonzero(values))
        return bool(len(values)) and more[-1] != 0

    def weigh(self, weight: float) -> None:
        """Set the cost of violating the clause that begins now. Call it for every clause of a file or for none."""
        self._weights.append(weight)

    @property
    def largest(self) -> int:
        """The largest variable, or 0 if there is no literal."""
        values = np.frombuffer(self._stream, np.int64)
        return max(int(values.max(initial=0)), -int(values.min(initial=0)))

    def rows(self) -> FactorRows:
        """Return the factors in the order of the file; see `clause_rows`."""
        values = np.frombuffer(self._stream, np.int64)
        ends = np.flatnonzero(values == 0)
        log_values = np.full(len(ends), -np.inf)
        if self._weights:
            log_values = 0.0 - np.frombuffer(self._weights, np.float64)  # a weight of 0 must not give -0
        owner = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=-1) - 1)
        return clause_rows(values[values != 0], owner, log_values)


def clause_rows(literals: IntArray, owner: IntArray, log_values: FloatArray) -> FactorRows:
    """Return the factors of N clauses.

    Repeated literals count once, and clauses that are always true give no factor. Clauses of one literal and empty
    clauses give tables. Cost O(n log n).

    Args:
        literals: the literals [n] of all clauses.
        owner: the clause [n] of each literal, ascending.
        log_values: the log potential [N] of an assignment that violates the clause: the cost, negated.
    """
    kept, lasting = _without_repeats(literals, owner, len(log_values))
    arity = np.bincount(owner[kept], minlength=len(log_values))[lasting]
    literals, log_values = literals[kept], log_values[lasting]
    scope_ptr = ptr_of(arity)
    is_unit, is_clause = arity == 1, arity > 1
    value_ptr = ptr_of(np.where(is_unit, 2, 1))
    values = np.zeros(int(value_ptr[-1]))
    where = value_ptr[:-1].copy()
    where[is_unit] += literals[scope_ptr[:-1][is_unit]] < 0  # the state that violates the clause
    values[where] = log_values
    return FactorRows(
        np.where(is_clause, Clause.number, TABLE),
        scope_ptr, np.abs(literals) - 1,
        value_ptr, values,
        ptr_of(np.where(is_clause, arity, 0)), (literals > 0).astype(np.int64)[np.repeat(is_clause, arity)],
        np.full(len(literals), 2),
    )  # fmt: skip


def unary_rows(variables: IntArray, log_tables: FloatArray) -> FactorRows:
    """Return unary factors over binary variables [n] from their log tables [n, 2]."""
    count = np.arange(len(variables) + 1)
    none = np.zeros(len(count), np.int64)
    return FactorRows(
        none[:-1], count, variables, 2 * count, log_tables.ravel(), none, none[:0], np.full(len(variables), 2)
    )


def _without_repeats(literals: IntArray, owner: IntArray, num_clauses: int) -> tuple[BoolArray, BoolArray]:
    """Return which literals [n] to keep, the first of each kind in a clause, and which clauses [N] can be violated."""
    variable = np.abs(literals)
    key = owner * (int(variable.max(initial=0)) + 1) + variable
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1])
    before, repeat = order[again], order[again + 1]
    lasting = np.ones(num_clauses, bool)
    lasting[owner[repeat[literals[before] != literals[repeat]]]] = False
    kept = lasting[owner]
    kept[repeat] = False
    return kept, lasting
