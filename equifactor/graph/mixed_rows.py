"""Operations on factors of mixed kinds: scores, slices at observed states, renumbered states, dense tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.factor_rows import FactorRows, by_kind, merged
from equifactor.graph.kinds import kind_class, kind_name
from equifactor.graph.possible_states import kept_entries
from equifactor.graph.slicing import slice_tables
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import place_in_row, ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray

_MAX_TABLE = 2**24  # Largest number of entries of a dense table that is made for display: 128 MiB.


def log_scores(rows: FactorRows, x: IntArray) -> FloatArray:
    """Return [N] log scores of assignments [N, V]."""
    total = np.zeros(len(x))
    for number, places in by_kind(rows):
        some = rows.take(places)
        if number == TABLE:
            stride = tables_alone(some).stride
            entry = some.value_ptr[:-1] + some.sum_of_edges((x[:, some.scope_vars] * stride).T).T
            total += some.log_values[np.ascontiguousarray(entry)].sum(axis=1)
        else:
            total += kind_class(number).log_scores(some, x[:, some.scope_vars]).sum(axis=1)
    return total


def slice_rows(rows: FactorRows, observed: IntArray) -> FactorRows:
    """Return the factors given the observed states [V], -1 where free; observed variables have left every scope."""
    parts = []
    for number, places in by_kind(rows):
        some = rows.take(places)
        if number == TABLE:
            structure, log_phi = slice_tables(tables_alone(some, len(observed)), some.log_values, observed)
            parts.append((places, structure.rows(log_phi)))
        else:
            parts.append((places, kind_class(number).sliced(some, observed[some.scope_vars])))
    return merged(parts)


def with_states(rows: FactorRows, new_state: IntArray, state_ptr: IntArray, card: IntArray) -> FactorRows:
    """Return the factors over the states that are kept, which have new numbers.

    Args:
        rows: the factors.
        new_state: [X] new number of each state, -1 for one that is struck out; the kept ones stay in order.
        state_ptr: [V+1] first state of each variable.
        card: [V] how many states each variable has now.
    """
    parts = []
    for number, places in by_kind(rows):
        some = rows.take(places)
        if number == TABLE:
            structure = tables_alone(some, len(card))
            kept = kept_entries(replace(structure, card=np.diff(state_ptr)), new_state >= 0)
            owner = np.repeat(np.arange(len(places)), np.diff(some.value_ptr))
            sizes = np.bincount(owner[kept], minlength=len(places))
            fewer = replace(some, card=card[some.scope_vars]).with_values(ptr_of(sizes), some.log_values[kept])
            parts.append((places, fewer))
            continue
        edge_states = np.repeat(state_ptr[some.scope_vars], some.card) + place_in_row(ptr_of(some.card))
        changed = kind_class(number).with_states(some, new_state[edge_states], card[some.scope_vars])
        parts.append((places, changed))
    return merged(parts)


def dense_table(row: FactorRows, factor: int) -> FloatArray:
    """Return the dense log table of a structured factor."""
    name = kind_name(int(row.kind[0]))
    size = float(np.log2(row.card).sum())
    if size > np.log2(_MAX_TABLE):
        raise ModelError(
            f"factor {factor} is a {name} over {row.arity[0]} variables. "
            f"Its dense table would have 2^{size:.0f} entries.",
            factor=factor,
        )
    table: FloatArray = kind_class(int(row.kind[0])).tables(row)[0]
    table.flags.writeable = False
    return table


def tables_alone(rows: FactorRows, num_vars: int | None = None) -> Structure:
    """Return the structure of rows that are all tables, over variables that are known by their number only."""
    size = num_vars if num_vars is not None else int(rows.scope_vars.max(initial=-1)) + 1
    card = np.ones(size, np.int64)
    card[rows.scope_vars] = rows.card
    return Structure(card, rows.scope_ptr, rows.scope_vars, rows.value_ptr)
