"""Some factors of a graph written out as tables, the others left as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.lowering import by_shape
from equifactor.graph.factor_rows import FactorRows, by_kind, merged
from equifactor.graph.kinds import kind_class
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray
    from equifactor.graph import FactorGraph


def with_tables(graph: FactorGraph, chosen: BoolArray) -> FactorGraph:
    """The graph with a dense table in place of every chosen factor [F]; the factors keep their numbers."""
    from equifactor.graph import FactorGraph
    from equifactor.graph.structure import Structure

    s = graph.structure
    rows = s.rows(graph.log_phi)
    places = np.flatnonzero(chosen & (rows.kind != TABLE))
    if not len(places):
        return graph
    rest = np.ones(rows.num_factors, bool)
    rest[places] = False
    parts = [(np.flatnonzero(rest), rows.take(np.flatnonzero(rest)))]
    for number, where in by_kind(rows.take(places)):
        members = rows.take(places[where])
        for group in by_shape(members):
            parts.append((places[where][group], _tables(number, members.take(group))))
    written = merged(parts)
    structure = Structure.of_rows(s.card, written, variable_names=s.variable_names, state_names=s.state_names)
    values = np.array(written.log_values)
    values.flags.writeable = False
    return FactorGraph.trusted(structure, values, graph.observed, graph.name)


def _tables(number: int, rows: FactorRows) -> FactorRows:
    """Factors of one kind and one shape as tables."""
    tables = np.asarray(kind_class(number).tables(rows), np.float64).reshape(rows.num_factors, -1)
    no_words = rows.with_words(np.zeros(rows.num_factors + 1, np.int64), rows.words[:0]).as_kind(TABLE)
    return no_words.with_values(ptr_of(np.full(rows.num_factors, tables.shape[1])), tables.ravel())
