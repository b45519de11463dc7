"""Factors in the form in which graphs are compared. Only the values of a factor count, not the kind that states them.

Small factors of every kind are compared by their dense tables. The `KindComparison` of a kind turns a large factor into
a few small tables over its variables and over auxiliary variables. The tables of two factors are isomorphic exactly
when the factors are. A kind without a `KindComparison` is compared by its dense tables, up to a larger limit.

Each large factor has a tag, an observed variable of one state in the scope of the table that replaces the factor. No
other scope has one, unless the evidence observes a variable of one state. Every isomorphism therefore maps replaced
factors to replaced factors, auxiliary variables to auxiliary variables, and original variables and factors to original
ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.factors.kind_comparison import KindComparison, comparison_of
from equifactor.graph.factor_graph import FactorGraph, as_graph
from equifactor.graph.factor_rows import by_kind, by_shape, merged
from equifactor.graph.kinds import kind_class, kind_name, kinds_with
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, IntArray

# The largest dense table, in entries, by which a structured factor is compared if its kind has a comparison. Chosen by
# hand.
MAX_TABLE = 2**12
# The largest dense table, in entries, by which a structured factor is compared if its kind has no comparison. Chosen by
# hand.
MAX_ONLY_TABLE = 2**16


def with_small_tables(graph: FactorGraph) -> FactorGraph:
    """Return the graph with dense tables in place of small structured factors, and counts in place of large clauses.

    Factors keep their numbers and scopes. Raise `ModelError` for a factor that can only be compared by its table if the
    table is too large.
    """
    if as_graph(graph).structure.kinds is None:
        return graph
    rows = graph.structure.rows(graph.log_phi)
    small = rows.sum_of_edges(np.log2(rows.card)) <= np.log2(MAX_TABLE)
    return _with_tables(graph, (rows.kind != TABLE) & (small | ~kinds_with("comparison", rows.kind)))


def with_tables_at(graph: FactorGraph, factors: IntArray) -> FactorGraph:
    """Return the graph with dense tables in place of these factors; raise `ModelError` if a table is too large."""
    chosen = np.zeros(graph.num_factors, bool)
    chosen[factors] = True
    return _with_tables(graph, chosen)


def _with_tables(graph: FactorGraph, chosen: BoolArray) -> FactorGraph:
    """Return the graph with tables in place of the chosen factors [F], and counts in place of clauses and constants."""
    s = graph.structure
    rows = s.rows(graph.log_phi)
    bits = np.where(chosen, rows.sum_of_edges(np.log2(rows.card)), 0.0)
    if bits.max(initial=0.0) > np.log2(MAX_ONLY_TABLE):
        a = int(np.argmax(bits))
        raise ModelError(
            f"Factor {a} is a {kind_name(int(rows.kind[a]))} over {rows.arity[a]} variables with a dense table of "
            f"2^{bits[a]:.0f} entries. Models can be compared up to 2^{np.log2(MAX_ONLY_TABLE):.0f} entries.",
            factor=a,
        )
    parts = []
    for number, places in by_kind(rows):
        own, left = places[chosen[places]], places[~chosen[places]]
        if number == TABLE:
            parts.append((left, rows.take(left)))
            continue
        comparison = comparison_of(number) or KindComparison()
        for shape in by_shape(rows.take(own)):
            same = rows.take(own[shape])
            tables = comparison.tables(kind_class(number), same).reshape(len(shape), -1)
            parts.append((own[shape], same.as_tables(tables)))
        parts.append((left, comparison.restated(rows.take(left))))
    changed = merged(parts)
    structure = Structure.of_rows(s.card, changed, variable_names=s.variable_names, state_names=s.state_names)
    return FactorGraph.trusted(structure, changed.log_values, graph.observed, graph.name)


def normal_factors(graph: FactorGraph) -> FactorGraph:
    """Return the graph with a unique form of each structured factor that `with_small_tables` left."""
    s = graph.structure
    if s.kinds is None:
        return graph
    rows = s.rows(graph.log_phi)
    parts = []
    for number, places in by_kind(rows):
        comparison = None if number == TABLE else comparison_of(number)
        if comparison is None or not comparison.has_forms:
            parts.append((places, rows.take(places)))
        else:
            parts += [(np.array([a]), comparison.normal(rows.take(np.array([a])))) for a in places.tolist()]
    changed = merged(parts)
    return FactorGraph.trusted(Structure.of_rows(s.card, changed), changed.log_values, graph.observed, graph.name)
