"""Relabelled graphs, and the new places of their table entries and messages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.graph.factor_graph import FactorGraph, as_graph
from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import picked, place_in_row, ptr_of, row_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from equifactor.base.typing import IntArray
    from equifactor.graph import FlatGraph
    from equifactor.graph.factor_rows import FactorRows
    from equifactor.symmetry.relabelling import Relabelling


def relabel(graph: FactorGraph, r: Relabelling) -> FactorGraph:
    """Return the same model with other numbers for variables, factors, scope positions and states.

    Names and evidence move along. A structured factor keeps its kind if the kind can renumber its states, and otherwise
    becomes a dense table. No value changes, so scores and ln Z stay the same up to the order in which terms are added.
    Cost O(T k) for the largest arity k of a table.
    """
    from equifactor.symmetry.relabelling import Relabelling

    s = as_graph(graph).structure
    if not isinstance(r, Relabelling):
        raise OptionError(f"relabel takes a Relabelling of the graph, found {brief(r)}.")
    _check_fits(s, r)
    if s.kinds is None:
        new = _structure(s, r)
        log_phi = np.empty_like(graph.log_phi)
        log_phi[entry_places(s, new, r)] = graph.log_phi
    else:
        rows = _rows(graph, r)
        variable_names, state_names = _names(s, r)
        card = s.card[np.argsort(r.variables)]
        new = Structure.of_rows(card, rows, variable_names=variable_names, state_names=state_names)
        log_phi = rows.log_values
    observed = None
    if graph.observed is not None:
        observed = np.full(s.num_vars, -1)
        seen = np.flatnonzero(graph.observed >= 0)
        observed[r.variables[seen]] = r.states[s.state_ptr[seen] + graph.observed[seen]]
    return FactorGraph.trusted(new, log_phi, observed, graph.name)


def entry_places(old: Structure, new: Structure, r: Relabelling) -> IntArray:
    """Return the place [T] of each table entry of the old structure in the new one; both have dense tables only."""
    arity = np.repeat(old.arity, np.diff(old.table_ptr))
    place = np.repeat(new.table_ptr[:-1][r.factors], np.diff(old.table_ptr))
    new_stride = new.stride[r.edge_places]
    for entries, edges, states in entry_slots(old):
        step = r.states[old.state_ptr[old.scope_vars[edges]] + states] * new_stride[edges]
        if len(entries) == len(arity):
            place += step
        else:
            place[entries] += step
    return place


def entry_slots(structure: Structure) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Yield, for each scope position from the last backwards, the entries that have it, their edges and their states.

    The structure must have dense tables only. Every entry appears once per variable of its factor.
    """
    s = structure
    factor = row_of(s.table_ptr)
    entries = np.arange(s.num_entries)
    rest = entries - s.table_ptr[factor]
    for back in range(1, int(s.arity.max(initial=0)) + 1):
        left = s.arity[factor] >= back
        if not left.all():
            entries, factor, rest = entries[left], factor[left], rest[left]
        edges = s.scope_ptr[factor + 1] - back
        rest, states = np.divmod(rest, s.card[s.scope_vars[edges]])
        yield entries, edges, states


def message_places(r: Relabelling, source: FlatGraph[Any], target: FlatGraph[Any]) -> IntArray:
    """Return the place [S] of each edge state of `source` in `target`, its relabelling; both hold one graph."""
    if source.num_graphs != 1 or target.num_graphs != 1:
        raise ModelError(
            f"Messages can be relabelled between two single graphs only; found batches of {source.num_graphs} and "
            f"{target.num_graphs} graphs."
        )
    old, new = source.graphs[0].structure, target.graphs[0].structure
    _check_fits(old, r)
    first = _first_edge_states(target, new)[r.edge_places]
    place = np.empty(source.num_edge_states, np.int64)
    for group in source.groups:
        for k, slot in enumerate(group.slots):
            edges = old.scope_ptr[group.factors] + k
            states = old.state_ptr[old.scope_vars[edges]][:, None] + np.arange(group.shape[k])
            place[slot] = (first[edges][:, None] + r.states[states]).ravel()
    for kind in source.structured:
        _, edges = picked(old.scope_ptr, kind.factors)
        states = np.repeat(old.state_ptr[old.scope_vars[edges]], kind.card) + place_in_row(ptr_of(kind.card))
        place[kind.states] = np.repeat(first[edges], kind.card) + r.states[states]
    return place


def _first_edge_states(flat: FlatGraph[Any], s: Structure) -> IntArray:
    """Return the first edge state [E] of each (factor, position) of a single compiled graph of this structure."""
    first = np.empty(s.num_edges, np.int64)
    for group in flat.groups:
        for k, slot in enumerate(group.slots):
            first[s.scope_ptr[group.factors] + k] = slot.start + group.shape[k] * np.arange(group.num_factors)
    for kind in flat.structured:
        _, edges = picked(s.scope_ptr, kind.factors)
        first[edges] = kind.states.start + ptr_of(kind.card)[:-1]
    return first


def _rows(graph: FactorGraph, r: Relabelling) -> FactorRows:
    """Return the relabelled factors of a graph that has structured factors."""
    from equifactor.graph.dense_rows import tables_with_slots
    from equifactor.graph.factor_rows import by_kind, merged
    from equifactor.graph.kinds import kind_class
    from equifactor.graph.structured_factor import TABLE

    s = graph.structure
    rows = s.rows(graph.log_phi)
    parts = []
    for number, places in by_kind(rows):
        some = rows.take(places)
        slots = r.slots[picked(s.scope_ptr, places)[1]]
        if number == TABLE:
            tables = Structure(s.card, some.scope_ptr, some.scope_vars, some.value_ptr)
            own = replace(r, factors=np.arange(len(places)), slots=slots, scope_ptr=some.scope_ptr)
            alone = relabel(FactorGraph.trusted(tables, some.log_values), own)
            parts.append((r.factors[places], alone.structure.rows(alone.log_phi)))
            continue
        kind = kind_class(number)
        edge_states = np.repeat(s.state_ptr[some.scope_vars], some.card) + place_in_row(ptr_of(some.card))
        moved = kind.with_states(some, r.states[edge_states], some.card)
        edge = np.argsort(some.scope_ptr[some.row_of_edge] + slots)
        stays = bool((moved.kind == number).all())  # Otherwise they have become dense tables.
        moved = kind.with_slots(moved, edge) if stays else tables_with_slots(kind, moved, edge)
        parts.append((r.factors[places], replace(moved, scope_vars=r.variables[moved.scope_vars])))
    return merged(parts)


def _structure(s: Structure, r: Relabelling) -> Structure:
    old_variable, old_factor = np.argsort(r.variables), np.argsort(r.factors)
    scope_vars = np.empty_like(s.scope_vars)
    scope_vars[r.edge_places] = r.variables[s.scope_vars]
    names, state_names = _names(s, r)
    scope_ptr = ptr_of(s.arity[old_factor])
    return Structure.build(s.card[old_variable], scope_ptr, scope_vars, variable_names=names, state_names=state_names)


def _names(s: Structure, r: Relabelling) -> tuple[list[str] | None, list[list[str] | None] | None]:
    """Return the names of variables and of their states, in the new order of both."""
    old_variable = np.argsort(r.variables).tolist()
    names = None if s.variable_names is None else [s.variable_names[i] for i in old_variable]
    if s.state_names is None:
        return names, None
    states = [
        None if known is None else _moved(known, r.states[s.state_ptr[i] : s.state_ptr[i + 1]])
        for i in old_variable
        for known in [s.state_names[i]]
    ]
    return names, states


def _moved(names: tuple[str, ...], place: IntArray) -> list[str]:
    return [names[x] for x in np.argsort(place).tolist()]


def _check_fits(s: Structure, r: Relabelling) -> None:
    if not (np.array_equal(s.state_ptr, r.state_ptr) and np.array_equal(s.scope_ptr, r.scope_ptr)):
        raise ModelError(
            f"This relabelling is for a graph with {len(r.variables)} variables and {len(r.factors)} factors of given "
            f"cardinalities and arities. It does not fit this graph with {s.num_vars} variables and {s.num_factors} "
            "factors."
        )
