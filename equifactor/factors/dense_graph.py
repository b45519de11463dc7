"""A graph with tables in place of factors of other kinds, over the same variables; for files and for networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.factors.lowering import by_shape
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.factor_rows import FactorRows, by_kind, merged
from equifactor.graph.kinds import kind_class, kind_name
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from equifactor.base.typing import IntArray

MAX_LOG2_TABLE = 20  # log2 of the entries of the largest table that is written in place of a sentence
MAX_LOG2_ENTRIES = 27  # the same for all of them together
_BLOCK = 2**23  # states of assignments that are scored at once


def with_tables(graph: FactorGraph, format: str, keep: Collection[int] = ()) -> FactorGraph:
    """The same graph with a table in place of each factor of another kind, except of the kinds with numbers in `keep`.

    Auxiliary variables would make the tables smaller, but the file would be one of other variables. Raises
    `ModelError` where a table has more than 2^20 entries or all of them more than 2^27; `format` is its name there.
    """
    s = graph.structure
    if s.kinds is None:
        return graph
    rows = s.rows(graph.log_phi)
    stays = np.isin(rows.kind, [TABLE, *keep])
    if stays.all():
        return graph
    _check_sizes(rows, ~stays, format)
    parts = [(np.flatnonzero(stays), rows.take(np.flatnonzero(stays)))]
    for number, places in by_kind(rows):
        if number != TABLE and number not in keep:
            parts += [(places[some], part) for some, part in _tables(number, rows.take(places))]
    changed = merged(parts)
    structure = Structure.of_rows(s.card, changed, variable_names=s.variable_names, state_names=s.state_names)
    return FactorGraph.trusted(structure, changed.log_values, graph.observed, graph.name)


def _check_sizes(rows: FactorRows, which: np.ndarray, format: str) -> None:
    bits = np.where(which, rows.sum_of_edges(np.log2(rows.card)), 0.0)
    if bits.max() > MAX_LOG2_TABLE:
        a = int(np.argmax(bits))
        raise ModelError(
            f"factor {a} is a {kind_name(int(rows.kind[a]))} over {rows.arity[a]} variables, whose table has "
            f"2^{bits[a]:.0f} entries; {format} holds it as a table only, of at most 2^{MAX_LOG2_TABLE} entries",
            factor=a,
        )
    total = np.log2(np.exp2(bits[which]).sum())
    if total > MAX_LOG2_ENTRIES:
        raise ModelError(
            f"the tables of the {np.count_nonzero(which)} factors that are none have 2^{total:.1f} entries; {format} "
            f"holds them as tables only, of at most 2^{MAX_LOG2_ENTRIES} entries in all"
        )


def _tables(number: int, rows: FactorRows) -> Iterator[tuple[IntArray, FactorRows]]:
    """Blocks of factors of one kind as tables, with their places among the rows."""
    for group in by_shape(rows):
        arity = int(rows.arity[group[0]])
        size = int(np.prod(rows.card[rows.scope_ptr[group[0]] :][:arity]))
        step = max(1, _BLOCK // (size * arity))
        for first in range(0, len(group), step):
            some = group[first : first + step]
            members = rows.take(some)
            values = kind_class(number).tables(members).ravel()
            none = np.zeros(len(some) + 1, np.int64)
            tables = members.as_kind(TABLE).with_values(ptr_of(np.full(len(some), size)), values)
            yield some, tables.with_words(none, none[:0])
