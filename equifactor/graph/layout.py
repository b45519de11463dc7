"""A FlatGraph as the plain arrays that Numba loops walk over, one factor or one variable at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.graph.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.graph import FlatGraph
    from equifactor.typing import BoolArray, FloatArray, IntArray


LINEAR_RANGE = 300.0  # natural-log range of a table whose products with messages cannot underflow


# Columns of Layout.factors and Layout.slots: one index array each would mean more arrays than a kernel call can bear.
SLOT, ENTRY = 0, 1  # of a factor: its first slot, its first table entry
MSG, STATE, CARD, VAR = 0, 1, 2, 3  # of a slot: first edge state, first variable state, states, variable


class Layout(NamedTuple):
    """Index arrays of a batch. Factors are numbered in flat order here (by group), edges as in the FlatGraph.

    A slot is a (factor, scope position) pair; slots lie factor after factor, edges block after block.
    """

    factors: IntArray  # [F+1, 2] first slot and first table entry of each factor
    slots: IntArray  # [E, 4] of each slot: MSG, STATE, CARD, VAR
    edges: IntArray  # [E, 3] of each edge, in flat order: MSG, STATE, CARD
    neighbour_ptr: IntArray  # [V+1] factors of variable i are neighbour_ptr[i]:neighbour_ptr[i+1]
    neighbours: IntArray  # [E] factors around each variable
    graph_of_factor: IntArray  # [F]
    graph_of_state: IntArray  # [S] graph of each edge state
    order: IntArray  # [F] flat factor numbers in the order of the model
    first_pair_state: int  # edge states before this one belong to unary factors
    max_arity: int


class Tables(NamedTuple):
    """Potentials for the kernels."""

    log_phi: FloatArray  # [T]
    phi: FloatArray  # [T] exp(log_phi - largest entry of the factor)
    wide: BoolArray  # [F] the range is too wide for `phi`: use `log_phi`


def layout_of(flat: FlatGraph[np.ndarray]) -> Layout:
    """Index arrays of a compiled batch; array operations per table shape only."""
    slots, arity, sizes, order = [], [], [], []
    for group in flat.groups:
        edges = [np.arange(e.start, e.stop) for e in group.edges]
        if edges:
            slots.append(np.stack(edges, axis=1).ravel())
        arity.append(np.full(group.num_factors, len(group.shape)))
        sizes.append(np.full(group.num_factors, int(np.prod(group.shape, dtype=np.int64))))
        order.append(group.factors)
    edge_of_slot = _join(slots)
    slot_ptr = ptr_of(_join(arity))
    model_factor = _join(order)  # batch-wide factor number of each flat factor
    factor_of_edge = np.empty(flat.num_edges, np.int64)
    factor_of_edge[edge_of_slot] = np.repeat(np.arange(len(model_factor)), np.diff(slot_ptr))
    card = np.diff(flat.var_ptr)[flat.var_of_edge]
    edge_rows = np.stack([ptr_of(card)[:-1], flat.var_ptr[flat.var_of_edge], card], axis=1)
    slot_var = flat.var_of_edge[edge_of_slot]
    return Layout(
        factors=np.stack([slot_ptr, ptr_of(_join(sizes))], axis=1),
        slots=np.concatenate([edge_rows[edge_of_slot], slot_var[:, None]], axis=1),
        edges=edge_rows,
        neighbour_ptr=ptr_of(np.bincount(flat.var_of_edge, minlength=flat.num_vars)),
        neighbours=factor_of_edge[np.argsort(flat.var_of_edge, kind="stable")],
        graph_of_factor=flat.graph_of_factor[model_factor],
        graph_of_state=np.repeat(flat.graph_of_var[flat.var_of_edge], card),
        order=np.argsort(model_factor),
        first_pair_state=min((g.slots[0].start for g in flat.groups if len(g.shape) > 1), default=flat.num_edge_states),
        max_arity=max((len(g.shape) for g in flat.groups), default=0),
    )


def tables_of(flat: FlatGraph[np.ndarray], layout: Layout) -> Tables:
    """Potentials in both domains, factor by factor scaled to a largest entry of 1."""
    log_phi = flat.log_phi
    if not len(log_phi):
        return Tables(log_phi, log_phi, np.zeros(flat.num_factors, bool))
    starts = layout.factors[:-1, ENTRY]
    top = np.maximum.reduceat(log_phi, starts)
    low = np.minimum.reduceat(np.where(np.isneginf(log_phi), np.inf, log_phi), starts)
    phi = np.exp(log_phi - np.repeat(top, np.diff(layout.factors[:, ENTRY])))
    return Tables(log_phi, phi, top - low > LINEAR_RANGE)


def _join(blocks: list[IntArray]) -> IntArray:
    return np.concatenate(blocks) if blocks else np.zeros(0, np.int64)
