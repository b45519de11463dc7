"""A graph with tables in place of factors of other kinds, over the same variables; for files and for networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.dense_rows import dense_rows
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.factor_rows import FactorRows, by_kind, merged
from equifactor.graph.kinds import kind_class, kind_name
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE

if TYPE_CHECKING:
    from collections.abc import Collection

    from equifactor.base.typing import BoolArray

MAX_LOG2_TABLE = 20  # log2 of the entries of the largest table that is written in place of a sentence
MAX_LOG2_ENTRIES = 27  # the same for all of them together


def with_tables(graph: FactorGraph, format: str, keep: Collection[int] = ()) -> FactorGraph:
    """The same graph with a table in place of each factor of another kind, except of the kinds with numbers in `keep`.

    Auxiliary variables would make the tables smaller, but the file would be one of other variables. Raises
    `ModelError` where a table has more than 2^20 entries or all of them more than 2^27; `format` is its name there.
    """
    kinds = graph.structure.kinds
    if kinds is None:
        return graph
    chosen = ~np.isin(kinds.kind, [TABLE, *keep])
    if chosen.any():
        _check_sizes(graph.structure.rows(graph.log_phi), chosen, format)
    return tables_at(graph, chosen)


def tables_at(graph: FactorGraph, chosen: BoolArray) -> FactorGraph:
    """Return the graph with a dense table in place of every chosen factor [F]; all factors keep their numbers."""
    s = graph.structure
    rows = s.rows(graph.log_phi)
    chosen = chosen & (rows.kind != TABLE)
    if not chosen.any():
        return graph
    stays = np.flatnonzero(~chosen)
    parts = [(stays, rows.take(stays))]
    for number, places in by_kind(rows):
        own = places[chosen[places]]
        if len(own):
            parts.append((own, dense_rows(kind_class(number), rows.take(own))))
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
