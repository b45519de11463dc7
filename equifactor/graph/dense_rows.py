"""Structured factors as dense tables: the one place that writes them out, and the default methods of every kind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.factor_rows import FactorRows, by_shape, merged
from equifactor.kernels.pointers import ptr_of, row_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.structured_factor import StructuredFactor

_BLOCK = 2**23  # States of assignments that are scored at once: 64 MiB of whole numbers.
_MAX_LOG2_ENTRIES = 24  # log2 of the entries of all tables that are written for a kind without methods of its own.


def dense_rows(cls: type[StructuredFactor], rows: FactorRows) -> FactorRows:
    """Return factors of one class as dense tables; rows of tables stay as they are."""
    if not rows.kind.any():
        return rows
    parts = []
    for group in by_shape(rows):
        arity = int(rows.arity[group[0]])
        size = int(np.prod(rows.card[rows.scope_ptr[group[0]] :][:arity]))
        step = max(1, _BLOCK // (size * max(1, arity)))
        for first in range(0, len(group), step):
            members = rows.take(group[first : first + step])
            tables = cls.tables(members).reshape(members.num_factors, -1)
            parts.append((group[first : first + step], members.as_tables(tables)))
    return merged(parts)


def sliced_tables(cls: type[StructuredFactor], rows: FactorRows, states: IntArray) -> FactorRows:
    """Return the dense tables of factors given the states [e] of some edges' variables, -1 where free."""
    scopes = np.split(states, rows.scope_ptr[1:-1])
    tables = [
        table[tuple(slice(None) if x < 0 else x for x in seen.tolist())]
        for table, seen in zip(_tables_of(cls, rows), scopes, strict=True)
    ]
    free = states < 0
    left = rows.keep_edges(free)
    return _with_tables(left, tables)


def tables_with_states(
    cls: type[StructuredFactor], rows: FactorRows, new_state: IntArray, new_card: IntArray
) -> FactorRows:
    """Return the dense tables of factors whose edge states have the new numbers `new_state`, -1 if struck out."""
    of_edges = np.split(new_state, ptr_of(rows.card)[1:-1])
    old = [np.argsort(np.where(new < 0, len(new), new), kind="stable")[: (new >= 0).sum()] for new in of_edges]
    tables = [
        table[np.ix_(*old[first:last])] if last > first else table
        for table, first, last in zip(_tables_of(cls, rows), rows.scope_ptr[:-1], rows.scope_ptr[1:], strict=True)
    ]
    return _with_tables(replace(rows, card=new_card), tables)


def tables_with_slots(cls: type[StructuredFactor], rows: FactorRows, edge: IntArray) -> FactorRows:
    """Return the dense tables of factors with their scopes in another order: the edge at place n was edge[n]."""
    axes = edge - rows.scope_ptr[row_of(rows.scope_ptr)]
    tables = [
        np.transpose(table, axes[first:last])
        for table, first, last in zip(_tables_of(cls, rows), rows.scope_ptr[:-1], rows.scope_ptr[1:], strict=True)
    ]
    return _with_tables(replace(rows, scope_vars=rows.scope_vars[edge], card=rows.card[edge]), tables)


def _tables_of(cls: type[StructuredFactor], rows: FactorRows) -> list[FloatArray]:
    """Return the log table of each factor, with one axis per variable."""
    bits = rows.sum_of_edges(np.log2(rows.card))
    total = np.log2(np.exp2(bits).sum()) if len(bits) else 0.0
    if total > _MAX_LOG2_ENTRIES:
        raise ModelError(
            f"The kind {cls.kind} handles evidence and removed states by dense tables. The tables of {len(bits)} "
            f"factors over up to {rows.arity.max()} variables would have 2^{total:.1f} entries, and at most "
            f"2^{_MAX_LOG2_ENTRIES} are allowed. Define sliced, with_states and with_slots in its class."
        )
    dense = dense_rows(cls, rows)
    shapes = np.split(rows.card, rows.scope_ptr[1:-1])
    tables = np.split(dense.log_values, dense.value_ptr[1:-1])
    return [table.reshape(shape) for table, shape in zip(tables, shapes, strict=True)] if len(bits) else []


def _with_tables(rows: FactorRows, tables: list[FloatArray]) -> FactorRows:
    """Return rows of these scopes as dense tables."""
    values = np.concatenate([np.zeros(0), *(table.ravel() for table in tables)])
    return FactorRows.of_tables(rows.scope_ptr, rows.scope_vars, values, rows.card)
