"""Factors in the form in which graphs are compared: what a factor says counts, not how it is stated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.errors import ModelError
from equifactor.factors.checks import by_kind
from equifactor.factors.factor_rows import merged
from equifactor.factors.kinds import kind_class, kind_name
from equifactor.factors.lowering import by_shape
from equifactor.factors.noisy_or import NoisyOr
from equifactor.factors.structured_factor import TABLE
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.pointers import ptr_of
from equifactor.graph.structure import Structure

if TYPE_CHECKING:
    from equifactor.factors.factor_rows import FactorRows
    from equifactor.typing import FloatArray

MAX_TABLE = 2**12  # entries up to which a factor of another kind is compared by its table


def compared_graph(graph: FactorGraph) -> FactorGraph:
    """The same graph with tables in place of factors of other kinds; `ModelError` where one would be too large.

    Factors keep their numbers and scopes, so that a relabelling of one graph is one of the other. The table of a
    relabelled factor is the relabelled table to the last bit.
    """
    if graph.structure.kinds is None:
        return graph
    s = graph.structure
    rows = s.rows(graph.log_phi)
    parts = []
    for number, places in by_kind(rows):
        some = rows.take(places)
        if number == TABLE:
            parts.append((places, some))
            continue
        size = some.sum_of_edges(np.log2(some.card))
        if size.max() > np.log2(MAX_TABLE):
            a = int(places[np.argmax(size)])
            raise ModelError(
                f"factor {a} is a {kind_name(number)} with a table of 2^{size.max():.0f} entries; models are compared "
                f"by tables of at most {MAX_TABLE} entries where factors are no tables",
                factor=a,
            )
        for shape in by_shape(some):
            parts.append((places[shape], _as_tables(some.take(shape), number)))
    tables = merged(parts)
    names = {"variable_names": s.variable_names, "state_names": s.state_names}
    structure = Structure.of_rows(s.card, tables, **names)
    return FactorGraph.trusted(structure, tables.log_values, graph.observed, graph.name)


def _as_tables(rows: FactorRows, number: int) -> FactorRows:
    """Factors of one kind and shape as tables."""
    log_tables = _noisy_or_tables(rows) if number == NoisyOr.number else kind_class(number).tables(rows)
    none = np.zeros(rows.num_factors + 1, np.int64)
    size = log_tables[0].size
    tables = rows.as_kind(TABLE).with_words(none, none[:0])
    return tables.with_values(ptr_of(np.full(rows.num_factors, size)), log_tables.ravel())


def _noisy_or_tables(rows: FactorRows) -> FloatArray:
    """[N, size] log tables of noisy-ors of one arity.

    Their values are sums over the active causes, and a sum depends on the order of its terms in the last bit; here it
    is taken from the least to the largest, which is an order that no relabelling changes.
    """
    from equifactor.factors.noisy_or import IN_SCOPE, ON, _effects, _inhibitor_of_edge, _signs, log1mexp

    count, arity = rows.num_factors, int(rows.arity[0])
    digits = np.indices((2,) * arity).reshape(arity, -1).T  # [size, k]
    active = digits == _signs(rows).reshape(count, 1, arity)  # [N, size, k]
    is_effect = _effects(rows).reshape(count, 1, arity)
    terms = np.sort(np.where(active & ~is_effect, _inhibitor_of_edge(rows).reshape(count, 1, arity), 0.0), axis=2)
    log_off = np.repeat(rows.log_values[rows.value_ptr[:-1]][:, None], len(digits), axis=1)
    for k in range(arity):
        log_off = log_off + terms[:, :, k]
    known = rows.words[rows.word_ptr[:-1]][:, None]
    on = np.where(known >= IN_SCOPE, (active & is_effect).any(axis=2), known == ON)
    return np.where(on, log1mexp(log_off), log_off)
