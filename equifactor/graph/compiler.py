"""The compiler from factor graphs to a `FlatGraph`: it joins graphs, groups factors by shape and lays out messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.factor_graph import FactorGraph, as_graphs
from equifactor.graph.flat_graph import Axis, FactorGroup, FlatGraph, StructuredGroup, has_zeros
from equifactor.graph.repeated_graph import RepeatedGraph, share_structure
from equifactor.graph.structure import FactorKinds, Structure, tables_only
from equifactor.kernels.pointers import join_ptr, picked, place_in_row, ptr_of, row_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray


def compile(graphs: FactorGraph | Sequence[FactorGraph]) -> FlatGraph[np.ndarray]:
    """Compile one graph or a batch of different ones; observed variables are left out.

    Cost O(T + E log F): array operations over the whole batch and per table shape, no loop over factors. Each
    graph only passes its arrays to `np.concatenate`: graphs of different structure cost no more than equal ones.
    """
    batch = tuple(as_graphs(graphs))
    if not batch:
        raise ModelError("compile needs at least one graph.")
    first = batch[0]
    if len(batch) > 1 and first.observed is None and first.structure.kinds is None and share_structure(batch):
        return RepeatedGraph.of(compile(first), batch)
    parts = _concatenate(batch)
    order, shapes, bounds = _groups_of(parts)

    num_edges, num_entries = len(parts.scope_vars), len(parts.log_phi)
    num_edge_states = int(parts.card[parts.scope_vars].sum())
    var_of_edge, factor_of_edge = np.empty(num_edges, np.int64), np.empty(num_edges, np.int64)
    state_of_edge_state = np.empty(num_edge_states, np.int64)
    edge_of_edge_state = np.empty(num_edge_states, np.int64)
    # Tables that lie in flat order already are not copied.
    in_order = parts.kinds is None and bool((np.diff(order) == 1).all())
    log_phi = parts.log_phi.view() if in_order else np.empty(num_entries)
    groups: list[FactorGroup] = []
    edge = edge_state = entry = 0  # the first of the next block
    for shape, start, stop in zip(shapes, bounds[:-1], bounds[1:], strict=True):
        factors = order[start:stop]
        slots, edges = [], []
        for j, d in enumerate(shape):
            edges.append(slice(edge, edge + len(factors)))
            slots.append(slice(edge_state, edge_state + d * len(factors)))
            variables = parts.scope_vars[parts.scope_ptr[factors] + j]
            var_of_edge[edges[j]] = variables
            factor_of_edge[edges[j]] = factors
            _count_on(parts.var_ptr[variables], d, out=state_of_edge_state[slots[j]])
            edge_of_edge_state[slots[j]] = np.repeat(np.arange(edge, edges[j].stop), d)
            edge, edge_state = edges[j].stop, slots[j].stop
        size = math.prod(shape)
        entries = slice(entry, entry + size * len(factors))
        if not in_order:
            _copy_tables(parts.log_phi, parts.table_ptr[factors], size, out=log_phi[entries])
        groups.append(FactorGroup(shape, factors, entries, tuple(slots), tuple(edges)))
        entry = entries.stop

    structured: list[StructuredGroup] = []
    if parts.kinds is not None:
        for number in np.unique(parts.kinds.kind[parts.kinds.kind > 0]).tolist():
            factors = np.flatnonzero(parts.kinds.kind == number)
            edge_ptr, of_scope = picked(parts.scope_ptr, factors)
            value_ptr, values = picked(parts.table_ptr, factors)
            word_ptr, words = picked(parts.kinds.word_ptr, factors)
            variables = parts.scope_vars[of_scope]
            card = parts.card[variables]
            own = slice(edge, edge + len(variables))
            var_of_edge[own] = variables
            factor_of_edge[own] = np.repeat(factors, np.diff(edge_ptr))
            state_ptr = ptr_of(card)
            states = slice(edge_state, edge_state + int(state_ptr[-1]))
            state_of_edge_state[states] = np.repeat(parts.var_ptr[variables], card) + place_in_row(state_ptr)
            edge_of_edge_state[states] = np.repeat(np.arange(own.start, own.stop), card)
            entries = slice(entry, entry + len(values))
            log_phi[entries] = parts.log_phi[values]
            own_words = parts.kinds.words[words]
            structured.append(
                StructuredGroup(number, factors, entries, states, own, edge_ptr, value_ptr, word_ptr, own_words, card)
            )
            edge, edge_state, entry = own.stop, states.stop, entries.stop

    arrays: dict[str, Any] = {
        "log_phi": log_phi,
        "var_ptr": parts.var_ptr,
        "var_of_state": np.repeat(np.arange(len(parts.card)), parts.card),
        "state_of_edge_state": state_of_edge_state,
        "edge_of_edge_state": edge_of_edge_state,
        "var_of_edge": var_of_edge,
        "factor_of_edge": factor_of_edge,
        "graph_of_var": row_of(parts.graph_ptr["variables"]),
        "graph_of_factor": row_of(parts.graph_ptr["factors"]),
    }
    for array in arrays.values():
        array.flags.writeable = False
    return FlatGraph(
        **arrays,
        groups=tuple(groups),
        structured=tuple(structured),
        has_zeros=has_zeros(log_phi),
        graphs=batch,
        graph_ptr=parts.graph_ptr,
    )


_RUN = 100  # Neighbouring tables from which copying them at once is worth a step of Python. Chosen by hand.


@dataclass(frozen=True)
class _Parts:
    """The graphs one after the other, still in their own factor order, free variables renumbered."""

    card: IntArray  # [V]
    var_ptr: IntArray  # [V+1]
    scope_ptr: IntArray  # [F+1]
    scope_vars: IntArray  # [E]
    table_ptr: IntArray  # [F+1]
    log_phi: FloatArray  # [T]
    graph_ptr: dict[Axis, IntArray]
    kinds: FactorKinds | None  # None if all factors are tables


def _concatenate(batch: tuple[FactorGraph, ...]) -> _Parts:
    """Join the arrays of all graphs, and shift variable numbers and pointers."""
    structures = [g.structure for g in batch]
    scopes = [s.scope_vars for s in structures]
    card = np.concatenate([s.card for s in structures])
    vars_ptr = ptr_of([len(s.card) for s in structures])
    scope_vars = np.concatenate(scopes) + np.repeat(vars_ptr[:-1], [len(s) for s in scopes])
    if any(g.observed is not None for g in batch):
        free = np.concatenate([np.full(g.num_vars, True) if g.observed is None else g.observed < 0 for g in batch])
        rank = ptr_of(free)  # [V+1] free variables before each one
        card, scope_vars, vars_ptr = card[free], rank[scope_vars], rank[vars_ptr]
    factors_ptr = ptr_of([len(s.scope_ptr) - 1 for s in structures])
    var_ptr = ptr_of(card)
    table_ptr = join_ptr([s.table_ptr for s in structures], factors_ptr)
    return _Parts(
        card=card,
        var_ptr=var_ptr,
        scope_ptr=join_ptr([s.scope_ptr for s in structures], factors_ptr),
        scope_vars=scope_vars,
        table_ptr=table_ptr,
        log_phi=batch[0].log_phi if len(batch) == 1 else np.concatenate([g.log_phi for g in batch]),
        graph_ptr={
            "variables": vars_ptr,
            "states": var_ptr[vars_ptr],
            "factors": factors_ptr,
            "entries": table_ptr[factors_ptr],
        },
        kinds=_concatenate_kinds(structures, factors_ptr),
    )


def _concatenate_kinds(structures: Sequence[Structure], factors_ptr: IntArray) -> FactorKinds | None:
    """Return the kinds of all factors of all graphs; None if all are tables."""
    if all(s.kinds is None for s in structures):
        return None
    kinds = [s.kinds or tables_only(s.num_factors) for s in structures]
    return FactorKinds(
        np.concatenate([k.kind for k in kinds]),
        join_ptr([k.word_ptr for k in kinds], factors_ptr),
        np.concatenate([k.words for k in kinds]),
    )


def _groups_of(parts: _Parts) -> tuple[IntArray, list[tuple[int, ...]], list[int]]:
    """Return the tables sorted stably by (arity, shape), the shapes, and where each shape begins.

    Returns:
        order [F], one shape per group, bounds [groups + 1] into order.
    """
    arity = np.diff(parts.scope_ptr)
    if parts.kinds is not None:
        arity[parts.kinds.kind > 0] = -1  # These are not grouped by shape.
    order = [np.zeros(0, np.int64)]
    shapes: list[tuple[int, ...]] = []
    bounds = [0]
    for k in np.flatnonzero(np.bincount(arity[arity >= 0])).tolist():
        factors = np.flatnonzero(arity == k)
        first = parts.scope_ptr[factors]
        cards = np.empty((k, len(factors)), np.int64)
        for j in range(k):
            cards[j] = parts.card[parts.scope_vars[first + j]]
        changes = np.any(cards[:, 1:] != cards[:, :-1], axis=0)
        if changes.any():
            by_shape = np.lexsort(cards[::-1])
            factors, cards = factors[by_shape], cards[:, by_shape]
            changes = np.any(cards[:, 1:] != cards[:, :-1], axis=0)
        starts = [0, *(np.flatnonzero(changes) + 1).tolist()]
        shapes += map(tuple, cards[:, starts].T.tolist())
        bounds += [bounds[-1] + stop for stop in (*starts[1:], len(factors))]
        order.append(factors)
    return np.concatenate(order), shapes, bounds


def _copy_tables(log_phi: FloatArray, first: IntArray, size: int, out: FloatArray) -> None:
    """Set out [n * size] to the tables of n factors, which begin at `first`."""
    gaps = np.flatnonzero(np.diff(first) != size) + 1
    if len(gaps) * _RUN <= len(first):  # Tables that are neighbours are copied at once.
        for start, stop in pairwise([0, *gaps.tolist(), len(first)]):
            out[start * size : stop * size] = log_phi[first[start] : first[start] + (stop - start) * size]
        return
    places = np.empty(len(out), np.int64)
    _count_on(first, size, out=places)
    out[:] = log_phi[places]


def _count_on(first: IntArray, count: int, out: IntArray) -> None:
    """Set out [n * count] to first, first + 1, .., first + count - 1 of each of the n rows."""
    rows = out.reshape(len(first), count)
    if count > 8:
        np.add(first[:, None], np.arange(count), out=rows)
    else:  # short rows: column by column, since array operations have a price per row
        for x in range(count):
            np.add(first, x, out=rows[:, x])
