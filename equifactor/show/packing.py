"""The connected parts of a graph, drawn one by one and arranged in rows like words, the largest first."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray

_BETWEEN = 1.5  # distance between two parts. Chosen by hand.
_random = threading.Lock()  # The random numbers of igraph are one source for the whole process.


def pack_parts(
    edges: IntArray,
    sides: FloatArray,
    draw: Callable[[Any, IntArray, IntArray], Any],
    seed: int,
) -> FloatArray:
    """Return the places [N, 2] of all nodes.

    Args:
        edges: [E, 2] the ends of each edge.
        sides: [N] how far each node reaches to the left and to the right of its place.
        draw: returns the places of one part, given the part as a graph of igraph, its edges, and the numbers of its
            nodes in the whole graph. A part of one node is not drawn.
        seed: seeds the random numbers of igraph.
    """
    import igraph

    count = len(sides)
    net = igraph.Graph(n=count, edges=edges.tolist())
    part = np.array(net.connected_components().membership)
    sizes = np.bincount(part)
    by_part, first = np.argsort(part, kind="stable"), ptr_of(sizes)
    by_edge = np.argsort(part[edges[:, 0]], kind="stable") if len(edges) else np.zeros(0, np.int64)
    edge_ptr = ptr_of(np.bincount(part[edges[:, 0]], minlength=len(sizes)) if len(edges) else 0 * sizes)
    local = np.empty(count, np.int64)
    local[by_part] = np.arange(count) - first[part[by_part]]
    drawn, corners = [], []
    with _random:
        igraph.set_random_number_generator(random.Random(seed))
        try:
            for p in range(len(sizes)):
                own = local[edges[by_edge[edge_ptr[p] : edge_ptr[p + 1]]]]
                nodes = by_part[first[p] : first[p + 1]]
                at = np.zeros((1, 2))
                if sizes[p] > 1:
                    smaller = igraph.Graph(n=int(sizes[p]), edges=own.tolist())
                    at = np.array(list(draw(smaller, own, nodes)), float)[: sizes[p]]
                reach = np.stack((sides[nodes], np.zeros(len(nodes))), axis=1)
                at = at - (at - reach).min(axis=0)
                drawn.append(at)
                corners.append((at + reach).max(axis=0))
        finally:
            igraph.set_random_number_generator(random)
    places = np.empty((count, 2))
    room = float(np.sqrt(sum(np.prod(corner + _BETWEEN) for corner in corners)))
    width = max(1.3 * room, max(corner[0] for corner in corners) + 1.0)
    x = y = height = 0.0
    for p in np.argsort(-sizes, kind="stable").tolist():
        if x > 0 and x + corners[p][0] > width:
            x, y, height = 0.0, y + height + _BETWEEN, 0.0
        places[by_part[first[p] : first[p + 1]]] = drawn[p] + (x, y)
        x, height = x + corners[p][0] + _BETWEEN, max(height, corners[p][1])
    return places
