"""Relabelled graphs: the graph itself, and where its table entries and messages have moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.errors import ModelError
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.pointers import ptr_of, row_of
from equifactor.graph.structure import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from equifactor.graph import FlatGraph
    from equifactor.symmetry.relabelling import Relabelling
    from equifactor.typing import IntArray


def relabel(graph: FactorGraph, r: Relabelling) -> FactorGraph:
    """The same model with other numbers for variables, factors, scope positions and states.

    Names and evidence move along. No value of a table changes, so that scores and ln Z stay what they are, up to
    the order in which they are added. Cost O(T k) for the largest arity k.
    """
    s = graph.structure
    _check_fits(s, r)
    new = _structure(s, r)
    log_phi = np.empty_like(graph.log_phi)
    log_phi[entry_places(s, new, r)] = graph.log_phi
    observed = None
    if graph.observed is not None:
        observed = np.full(s.num_vars, -1)
        seen = np.flatnonzero(graph.observed >= 0)
        observed[r.variables[seen]] = r.states[s.state_ptr[seen] + graph.observed[seen]]
    return FactorGraph.trusted(new, log_phi, observed, graph.name)


def entry_places(old: Structure, new: Structure, r: Relabelling) -> IntArray:
    """The place [T] of each table entry of the old structure in the new one."""
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
    """For each scope position, from the back: the table entries that have it, their edge and their state there.

    Entries of smaller tables drop out as the position rises; every entry appears once per variable of its factor.
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
    """The place [S] of each edge state of `source` in `target`, its relabelling; both hold one graph."""
    if source.num_graphs != 1 or target.num_graphs != 1:
        raise ModelError(f"messages are carried between single graphs, found {source.num_graphs, target.num_graphs}")
    old, new = source.graphs[0].structure, target.graphs[0].structure
    _check_fits(old, r)
    first = np.empty(new.num_edges, np.int64)  # first edge state of each (factor, position)
    for group in target.groups:
        for k, slot in enumerate(group.slots):
            first[new.scope_ptr[group.factors] + k] = slot.start + group.shape[k] * np.arange(group.num_factors)
    place = np.empty(source.num_edge_states, np.int64)
    edge_places = r.edge_places
    for group in source.groups:
        for k, slot in enumerate(group.slots):
            edges = old.scope_ptr[group.factors] + k
            states = old.state_ptr[old.scope_vars[edges]][:, None] + np.arange(group.shape[k])
            place[slot] = (first[edge_places[edges]][:, None] + r.states[states]).ravel()
    return place


def _structure(s: Structure, r: Relabelling) -> Structure:
    old_variable, old_factor = np.argsort(r.variables), np.argsort(r.factors)
    scope_vars = np.empty_like(s.scope_vars)
    scope_vars[r.edge_places] = r.variables[s.scope_vars]
    names = s.variable_names and [s.variable_names[i] for i in old_variable.tolist()]
    state_names = s.state_names and [
        known and _moved(known, r.states[s.state_ptr[i] : s.state_ptr[i + 1]])
        for i in old_variable.tolist()
        for known in [s.state_names[i]]
    ]
    scope_ptr = ptr_of(s.arity[old_factor])
    return Structure.build(s.card[old_variable], scope_ptr, scope_vars, variable_names=names, state_names=state_names)


def _moved(names: tuple[str, ...], place: IntArray) -> list[str]:
    return [names[x] for x in np.argsort(place).tolist()]


def _check_fits(s: Structure, r: Relabelling) -> None:
    if not (np.array_equal(s.state_ptr, r.state_ptr) and np.array_equal(s.scope_ptr, r.scope_ptr)):
        raise ModelError(
            f"this relabelling is for another graph: {len(r.variables)} variables and {len(r.factors)} factors with "
            f"their own cardinalities and arities; found {s.num_vars} variables and {s.num_factors} factors"
        )
