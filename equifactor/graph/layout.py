"""The CPU layout of a FlatGraph: plain arrays that kernels walk over, one factor or one variable at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.kernels.pointers import by_number, ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph import FlatGraph


LINEAR_RANGE = 300.0  # The largest log range, in nats, of a table whose products with messages cannot underflow.


SLOT, ENTRY = 0, 1  # Columns of `Layout.factors`: the first slot and the first table entry of a factor.
# Columns of `Layout.slots`: the first edge state, the first variable state, the number of states, and the variable of a
# slot. The rows of `Layout.edges` have the same columns without VAR.
MSG, STATE, CARD, VAR = 0, 1, 2, 3


class Layout(NamedTuple):
    """Index arrays of a batch, read-only. Factors are numbered in flat order (by group), edges as in the FlatGraph.

    A slot is a (factor, scope position) pair; slots lie factor after factor, edges block after block.
    """

    factors: IntArray  # [F+1, 2] SLOT and ENTRY of each factor
    slots: IntArray  # [E, 4] MSG, STATE, CARD and VAR of each slot
    factor_of_slot: IntArray  # [E]
    edges: IntArray  # [E, 3] MSG, STATE and CARD of each edge, in flat order
    var_ptr: IntArray  # [V+1] states of variable i are var_ptr[i]:var_ptr[i+1]
    neighbour_ptr: IntArray  # [V+1] factors of variable i are neighbour_ptr[i]:neighbour_ptr[i+1]
    neighbours: IntArray  # [E] factors around each variable
    state_of_edge_state: IntArray  # [S]
    graph_of_var: IntArray  # [V]
    graph_of_factor: IntArray  # [F]
    graph_of_edge_state: IntArray  # [S]
    order: IntArray  # [F] flat factor numbers in the order of the model
    first_pair_state: int  # edge states before this one belong to unary factors
    max_arity: int  # of the tables


class KindArrays(NamedTuple):
    """The kind of each factor, in flat order."""

    kind: IntArray  # [F] as in `graph.kinds.KINDS`, 0 for a table
    word_ptr: IntArray  # [F+1]
    words: IntArray


class SlotsAround(NamedTuple):
    """Slots around each variable: those of variable i are slots[ptr[i]:ptr[i+1]]."""

    ptr: IntArray  # [V+1]
    slots: IntArray


class Tables(NamedTuple):
    """Potentials for the kernels, in the log domain."""

    log_phi: FloatArray  # [T]
    wide: BoolArray  # [F] whether the range of a table is too wide for linear numbers


def layout_of(flat: FlatGraph[np.ndarray]) -> Layout:
    """Return the layout of a compiled batch; graphs of one structure share it, as potentials do not matter."""
    if "layout" not in flat.cache:
        flat.cache["layout"] = _new_layout(flat)
    layout: Layout = flat.cache["layout"]
    return layout


def kinds_of(flat: FlatGraph[np.ndarray]) -> KindArrays | None:
    """Return the kinds of the factors of a compiled batch; None if all are tables."""
    if not flat.structured:
        return None
    if "kinds" not in flat.cache:
        num_tables = sum(group.num_factors for group in flat.groups)
        kind, counts, words = [np.zeros(num_tables, np.int64)], [np.zeros(num_tables, np.int64)], []
        for group in flat.structured:
            kind.append(np.full(group.num_factors, group.kind))
            counts.append(np.diff(group.word_ptr))
            words.append(group.words)
        arrays = KindArrays(_join(kind), ptr_of(_join(counts)), _join(words))
        for array in arrays:
            array.flags.writeable = False
        flat.cache["kinds"] = arrays
    kinds: KindArrays = flat.cache["kinds"]
    return kinds


def _new_layout(flat: FlatGraph[np.ndarray]) -> Layout:
    """Return the layout by array operations per table shape, without a loop over factors."""
    slots, arity, sizes, blocks = [], [], [], []
    for group in flat.groups:
        edges = [np.arange(e.start, e.stop) for e in group.edges]
        if edges:
            slots.append(np.stack(edges, axis=1).ravel())
        arity.append(np.full(group.num_factors, len(group.shape)))
        sizes.append(np.full(group.num_factors, int(np.prod(group.shape, dtype=np.int64))))
        blocks.append(group.factors)
    for other in flat.structured:
        slots.append(np.arange(other.edges.start, other.edges.stop))
        arity.append(np.diff(other.edge_ptr))
        sizes.append(np.diff(other.value_ptr))
        blocks.append(other.factors)
    edge_of_slot = _join(slots)
    slot_ptr = ptr_of(_join(arity))
    model_factor = _join(blocks)  # batch-wide factor number of each flat factor
    factor_of_slot = np.repeat(np.arange(len(model_factor)), np.diff(slot_ptr))
    factor_of_edge = np.empty(flat.num_edges, np.int64)
    factor_of_edge[edge_of_slot] = factor_of_slot
    card = np.diff(flat.var_ptr)[flat.var_of_edge]
    edge_rows = np.stack([ptr_of(card)[:-1], flat.var_ptr[flat.var_of_edge], card], axis=1)
    slot_rows = np.empty((len(edge_of_slot), 4), np.int64)
    slot_rows[:, :VAR] = edge_rows.take(edge_of_slot, axis=0)
    slot_rows[:, VAR] = flat.var_of_edge[edge_of_slot]
    many = flat.num_graphs > 1
    order = np.empty(len(model_factor), np.int64)  # the inverse of `model_factor`, which sorting would find slowly
    order[model_factor] = np.arange(len(model_factor))
    layout = Layout(
        factors=np.stack([slot_ptr, ptr_of(_join(sizes))], axis=1),
        slots=slot_rows,
        factor_of_slot=factor_of_slot,
        edges=edge_rows,
        var_ptr=flat.var_ptr,
        neighbour_ptr=ptr_of(np.bincount(flat.var_of_edge, minlength=flat.num_vars)),
        neighbours=factor_of_edge[by_number(flat.var_of_edge)],
        state_of_edge_state=flat.state_of_edge_state,
        graph_of_var=flat.graph_of_var,
        graph_of_factor=flat.graph_of_factor[model_factor] if many else np.zeros(len(order), np.int64),
        graph_of_edge_state=(
            np.repeat(flat.graph_of_var[flat.var_of_edge], card) if many else np.zeros(flat.num_edge_states, np.int64)
        ),
        order=order,
        first_pair_state=min(
            [g.slots[0].start for g in flat.groups if len(g.shape) > 1] + [g.states.start for g in flat.structured],
            default=flat.num_edge_states,
        ),
        max_arity=max((len(g.shape) for g in flat.groups), default=0),
    )
    for field in layout:
        if isinstance(field, np.ndarray):
            field.flags.writeable = False
    return layout


def slots_around(layout: Layout, least_arity: int = 0) -> SlotsAround:
    """Return the slots around each variable, of the factors of at least this arity."""
    arity = np.diff(layout.factors[:, SLOT])
    slots = np.flatnonzero(arity[layout.factor_of_slot] >= least_arity)
    var = layout.slots[slots, VAR]
    ptr = ptr_of(np.bincount(var, minlength=len(layout.var_ptr) - 1))
    return SlotsAround(ptr, slots[by_number(var)])


def tables_of(flat: FlatGraph[np.ndarray]) -> tuple[Tables, FloatArray]:
    """Return potentials, and phi [T] = exp(log_phi - largest entry of the factor), accurate for tables not too wide.

    Kernels take phi as an argument of its own. If it is None they work in the max semiring, which needs no linear
    numbers. The semiring must be known when a kernel is compiled.
    """
    log_phi = flat.log_phi
    if not len(log_phi):
        return Tables(log_phi, np.zeros(flat.num_factors, bool)), np.zeros(0)  # kernels are compiled for writable phi
    entry_ptr = layout_of(flat).factors[:, ENTRY]
    top = np.maximum.reduceat(log_phi, entry_ptr[:-1])
    top[np.isneginf(top)] = 0.0  # A table may be all zero, as the only value of a clause that must hold.
    finite = np.where(np.isneginf(log_phi), np.inf, log_phi) if flat.has_zeros else log_phi
    low = np.minimum.reduceat(finite, entry_ptr[:-1])
    phi = np.empty(len(log_phi))
    last = 0  # the first factor that is not in a group
    for group in flat.groups:
        first, last = last, last + group.num_factors
        rows = phi[group.entries].reshape(group.num_factors, -1)
        np.subtract(log_phi[group.entries].reshape(rows.shape), top[first:last, None], out=rows)
    rest = entry_ptr[last]
    phi[rest:] = log_phi[rest:] - np.repeat(top[last:], np.diff(entry_ptr[last:]))
    np.exp(phi, out=phi)
    return Tables(log_phi, top - low > LINEAR_RANGE), phi


def _join(blocks: list[IntArray]) -> IntArray:
    return np.concatenate(blocks) if blocks else np.zeros(0, np.int64)
