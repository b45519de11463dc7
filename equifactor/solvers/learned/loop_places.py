"""Where the tables, messages and variable states of short loops are in a compiled batch; for both engines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.graph.short_loops import Pairs, Rings, find_rings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.factors.structured_pairs import StructuredPairs
    from equifactor.graph import FlatGraph


class LoopPlaces(NamedTuple):
    """N loops of one shape. Each list has one array per corner: first places, whose other states follow."""

    shape: tuple[int, ...]  # The numbers of states of the corners.
    number: int
    states: list[IntArray]  # [N] the first variable state.
    before: list[IntArray]  # [N] the first edge state of the factor to the previous corner.
    after: list[IntArray]  # [N] the first edge state of the factor to the next corner.
    # [N, d_k, d_{k+1}] the entries of the table to the next corner; tables of structured factors come after log_phi.
    entries: list[IntArray]


def find_loops(flat: FlatGraph[Any], own: StructuredPairs, clock: Clock | None = None) -> list[LoopPlaces]:
    """Return the triangles and squares of pair factors; none if the clock stopped the search."""
    places = _places(flat, own)
    var_ptr = _numpy(flat.var_ptr)
    pairs = Pairs(places.variables, np.diff(var_ptr), _numpy(flat.graph_of_var))
    found = []
    for ring in find_rings(pairs, clock) or ():
        corners = range(len(ring.shape))
        at, sides = ring.corners.T, ring.sides.T
        found.append(
            LoopPlaces(
                ring.shape,
                len(ring.corners),
                [var_ptr[at[k]] for k in corners],
                [places.edge_states(sides[k - 1], at[k]) for k in corners],
                [places.edge_states(sides[k], at[k]) for k in corners],
                [places.entries(ring, k) for k in corners],
            )
        )
    return found


def shares(
    states: IntArray, before: IntArray, after: IntArray, num_states: int, num_edge_states: int
) -> tuple[FloatArray, FloatArray]:
    """Return the share [S2] that an edge state takes of its corrections, and one over the number of loops [X]."""
    loops_of_edge = np.bincount(np.concatenate((before, after)), minlength=num_edge_states)
    loops_of_state = np.bincount(states, minlength=num_states)
    return np.minimum(1.0, 2.0 / np.maximum(loops_of_edge, 1)), (loops_of_state > 0) / np.maximum(loops_of_state, 1)


class _Places(NamedTuple):
    """Where the pair factors of a batch have their tables and messages."""

    variables: IntArray  # [P, 2]
    table: IntArray  # [P] the first entry in log_phi.
    block: IntArray  # [P, 2] the first edge state of either variable.

    def edge_states(self, pair: IntArray, variable: IntArray) -> IntArray:
        """Return the first edge state [N] of each pair at one of its variables."""
        return self.block[pair, (self.variables[pair, 1] == variable).astype(np.int64)]

    def entries(self, ring: Rings, k: int) -> IntArray:
        """Return [N, d_k, d_{k+1}] the positions of the entries of the table of side k, seen from corner k."""
        side = ring.sides[:, k]
        here, after = ring.shape[k], ring.shape[(k + 1) % len(ring.shape)]
        straight = (self.variables[side, 0] == ring.corners[:, k])[:, None, None]
        x, y = np.arange(here)[:, None], np.arange(after)
        return self.table[side][:, None, None] + np.where(straight, x * after + y, y * here + x)


def _places(flat: FlatGraph[Any], own: StructuredPairs) -> _Places:
    """Return the places of all pair factors of a batch."""
    var_of_edge = _numpy(flat.var_of_edge)
    variables, table, block = [np.zeros((0, 2), np.int64)], [np.zeros(0, np.int64)], [np.zeros((0, 2), np.int64)]
    for group in flat.groups:
        if len(group.shape) == 2:
            n = np.arange(group.num_factors)
            variables.append(np.stack([var_of_edge[e] for e in group.edges], 1))
            table.append(group.entries.start + n * math.prod(group.shape))
            block.append(np.stack([group.slots[j].start + n * group.shape[j] for j in (0, 1)], 1))
    if len(own.edges):
        variables.append(var_of_edge[own.edges])
        table.append(flat.num_entries + own.start)
        first_state = np.searchsorted(_numpy(flat.edge_of_edge_state), np.arange(flat.num_edges))
        block.append(first_state[own.edges])
    return _Places(*(np.concatenate(parts) for parts in (variables, table, block)))


def _numpy(values: Any) -> NDArray[Any]:
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()
