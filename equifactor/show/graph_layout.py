"""Layouts: where variables and factors are drawn. Grids as grids, networks in layers, other graphs by forces."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.kernels.pointers import ptr_of
from equifactor.show.grid_shapes import Grid, grid_of, pairs_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph
    from equifactor.graph.structure import Structure

_MOST_LAYERED = (
    150  # Variables of a network drawn in layers; layers of more are slow to find and too wide. Chosen by hand.
)
_MOST_AS_TREE = 2000  # Nodes of a tree drawn as a tree. Chosen by hand.
_MOST_SPRINGS = (
    300  # Nodes of a layout with a spring between every two, which looks best and costs most. Chosen by hand.
)
_MOST_PAIRS = 1500  # Nodes of a layout in which all pairs repel each other; in larger ones only near pairs do.
_CHAIN_ROW = 24  # Variables in one row of a chain. Chosen by hand.
_PIVOTS = 40  # Nodes from which distances are measured for the start of a layout. Chosen by hand.
_NODE_SIDE = 0.7  # Side of the square that a node has on average, at least, in a layout by forces. Chosen by hand.
_NODE_AREA = 1.2  # Area that a node has on average, at least, in a layout of more than `_MOST_SPRINGS` nodes. By hand.
_SWEEPS = 60  # Passes that move the nodes of a layer towards their neighbours. Chosen by hand.
_ROW_HEIGHT = 1.25  # Distance between the layers of a network, whose names stand under the circles. Chosen by hand.
_random = threading.Lock()  # The random numbers of igraph are one source for the whole process.


@dataclass(frozen=True)
class Places:
    """Coordinates of all variables and factors. Neighbours are about 1 apart; y points down."""

    kind: str  # grid, rows, tree or force
    variables: FloatArray  # [V, 2]
    factors: FloatArray  # [F, 2]
    grid: tuple[int, int] | None = None  # rows and columns


def places_of(
    graph: FactorGraph, children: Sequence[int] | None = None, seed: int = 0, *, compact: bool = False
) -> Places:
    """Place all variables and factors. The same graph and seed give the same places.

    Args:
        graph: the model.
        children: [F] for a Bayesian network, the variable whose conditional distribution each factor is.
        seed: seeds the random numbers of layouts by forces.
        compact: lay out trees by forces, because a tree grows too wide for a picture that cannot be moved.
    """
    s = graph.structure
    if not s.num_vars:
        return Places("rows", np.zeros((0, 2)), np.zeros((s.num_factors, 2)))
    grid = grid_of(graph)
    if grid is not None and not grid.wraps:
        return places_in(grid, s)
    pairs = pairs_of(s)
    if s.arity.max(initial=0) <= 1:
        side = int(np.ceil(np.sqrt(s.num_vars)))
        at = np.stack((np.arange(s.num_vars) % side, np.arange(s.num_vars) // side), axis=1).astype(float)
        return Places("rows", at, _middles(s, at))
    if (order := chain_of(s.num_vars, pairs)) is not None and s.arity.max(initial=0) <= 2:
        at = np.empty((s.num_vars, 2))
        at[order] = _in_rows(s.num_vars)
        return Places("rows", at, _middles(s, at))
    if children is not None and s.num_vars <= _MOST_LAYERED:
        at = _in_layers(s, children, seed)
        return Places("tree", at, _above_children(s, at, children))
    kind, nodes = _by_forces(s, pairs, seed, compact)
    at = nodes[: s.num_vars]
    factors = _middles(s, at)
    factors[s.arity > 2] = nodes[s.num_vars :]
    return Places(kind, at, factors)


def places_in(grid: Grid, s: Structure) -> Places:
    """Place variables in the cells of a grid, and each factor in the middle of its variables."""
    at = grid.cells.astype(float)
    return Places("grid", at, _middles(s, at), (grid.rows, grid.columns))


# ---- chains ----------------------------------------------------------------------------------------------


def chain_of(num_vars: int, pairs: IntArray) -> IntArray | None:
    """Return the variables of a chain, starting at the end with the lower number; None if the pairs form no chain."""
    degree = np.bincount(pairs.ravel(), minlength=num_vars)
    ends = np.flatnonzero(degree == 1)
    if len(pairs) != num_vars - 1 or len(ends) != 2 or degree.max(initial=0) > 2 or degree.min(initial=2) < 1:
        return None
    net = _igraph().Graph(n=num_vars, edges=pairs.tolist())
    far = np.array(net.distances(source=int(ends[0]))[0])
    return np.argsort(far) if np.isfinite(far).all() else None


def _in_rows(count: int) -> FloatArray:
    """Return places along rows. Every second row runs backwards, so that neighbours stay next to each other."""
    row, column = np.divmod(np.arange(count), _CHAIN_ROW)
    return np.stack((np.where(row % 2, _CHAIN_ROW - 1 - column, column), row), axis=1).astype(float)


# ---- networks in layers, trees, forces ------------------------------------------------------------------


def _in_layers(s: Structure, children: Sequence[int], seed: int) -> FloatArray:
    """Place parents above their children; igraph (Sugiyama) finds the order within layers."""
    child = np.asarray(children)[s.factor_of_edge]
    arcs = np.stack((s.scope_vars, child), axis=1)[s.scope_vars != child]
    return _packed(s.num_vars, arcs, _layers, seed, directed=True)


def _layers(net: Any, arcs: IntArray) -> FloatArray:
    """Place every node as near to its neighbours as possible, with nodes of one layer at least 1 apart."""
    layer = np.zeros(net.vcount(), np.int64)
    order = net.topological_sorting()
    for i in order:
        layer[i] = max((layer[j] + 1 for j in net.predecessors(i)), default=0)
    for i in reversed(order):  # A node with more children than parents stands right above its first child.
        below = net.successors(i)
        if len(below) > len(net.predecessors(i)):
            layer[i] = min(layer[j] for j in below) - 1
    drawn = np.array(net.layout_sugiyama(layers=layer.tolist(), hgap=1.0, vgap=1.0).coords)[: net.vcount()]
    x = drawn[:, 0]
    rows = [np.flatnonzero(layer == n) for n in range(layer.max() + 1)]
    rows = [row[np.argsort(x[row], kind="stable")] for row in rows]
    ends = np.concatenate((arcs, arcs[:, ::-1]))
    degree = np.bincount(ends[:, 0], minlength=len(x))
    for _ in range(_SWEEPS):
        wanted = np.bincount(ends[:, 0], x[ends[:, 1]], len(x)) / np.maximum(degree, 1)
        for row in rows:
            x[row] = _apart(wanted[row])
    y = _ROW_HEIGHT * layer
    x *= np.clip(1.4 * np.ptp(y) / max(np.ptp(x), 1.0), 1.0, 2.5)  # Names need width, and windows are wide.
    return np.stack((x, y), axis=1)


def _apart(wanted: FloatArray) -> FloatArray:
    """Return the places nearest to the wanted ones (least squares), in their order and at least 1 apart."""
    blocks: list[list[float]] = []  # for places that touch: the sum of (wanted place - position), and their count
    for k, place in enumerate(wanted):
        blocks.append([place - k, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + count]
    means = np.repeat([total / count for total, count in blocks], [int(count) for _, count in blocks])
    return means + np.arange(len(wanted))


def _by_forces(s: Structure, pairs: IntArray, seed: int, compact: bool) -> tuple[str, FloatArray]:
    """Place all variables and all factors of more than two variables, which are nodes too."""
    large = np.flatnonzero(s.arity > 2)
    number = np.full(s.num_factors, -1)
    number[large] = s.num_vars + np.arange(len(large))
    of_large = number[s.factor_of_edge] >= 0
    stars = np.stack((number[s.factor_of_edge], s.scope_vars), axis=1)[of_large]
    edges = np.concatenate((pairs, stars))
    count = s.num_vars + len(large)
    net = _igraph().Graph(n=count, edges=edges.tolist())
    if (
        not compact
        and count <= _MOST_AS_TREE
        and net.is_simple()
        and len(edges) == count - len(net.connected_components())
    ):
        return "tree", _packed(count, edges, lambda part, _: part.layout_reingold_tilford(), seed)
    return "force", _packed(count, edges, _forces, seed)


def _forces(net: Any, edges: IntArray) -> FloatArray:
    """Place nodes by springs and repulsion, from a start that has the right global shape."""
    count = net.vcount()
    start = _start(net, edges)
    if count <= _MOST_SPRINGS:
        return _scaled(np.array(net.layout_kamada_kawai(seed=start.tolist()).coords), edges)
    near_only = count > _MOST_PAIRS
    steps = 500 if count <= 500 else 150 if not near_only else 60 if count <= 4000 else 30
    heat = max(1.0, np.sqrt(count) / (40 if near_only else 10))
    at = net.layout_fruchterman_reingold(seed=start.tolist(), niter=steps, start_temp=heat, grid=near_only)
    places = _scaled(np.array(at.coords), edges)
    # If every node is near every other, as in random graphs, edges must be longer for the nodes to have room.
    area = float(np.prod(np.ptp(places, axis=0) + 1.0))
    return places * max(1.0, float(np.sqrt(_NODE_AREA * count / area)))


def _start(net: Any, edges: IntArray) -> FloatArray:
    """Return places whose distances resemble those along the edges, measured from `_PIVOTS` nodes [Brandes07]."""
    count = net.vcount()
    pivots, nearest = [0], np.full(count, np.inf)
    columns: list[FloatArray] = []
    while len(columns) < min(_PIVOTS, count):
        far = np.array(net.distances(source=pivots[-1])[0], float)
        columns.append(far)
        nearest = np.minimum(nearest, far)
        pivots.append(int(np.argmax(nearest)))
    d = np.stack(columns, axis=1) ** 2
    centred = -0.5 * (d - d.mean(axis=0) - d.mean(axis=1, keepdims=True) + d.mean())
    _, axes = np.linalg.eigh(centred.T @ centred)
    at = centred @ axes[:, : -3 if axes.shape[1] > 2 else None : -1][:, :2]
    at = np.pad(at, ((0, 0), (0, 2 - at.shape[1])))
    # Leaves of one node lie on each other: noise, always the same, separates them.
    return _scaled(at, edges) + np.random.default_rng(0).normal(scale=0.1, size=(count, 2))


def _scaled(at: FloatArray, edges: IntArray) -> FloatArray:
    """Scale places so that the median edge has length 1, and further until a node has its `_NODE_SIDE`."""
    length = np.median(np.linalg.norm(at[edges[:, 0]] - at[edges[:, 1]], axis=1)) if len(edges) else 1.0
    side = np.sqrt(np.prod(np.maximum(np.ptp(at, axis=0), length)) / len(at)) / _NODE_SIDE
    unit = min(length, side)
    return (at - at.mean(axis=0)) / (unit if np.isfinite(unit) and unit > 1e-9 else 1.0)


def _packed(
    count: int, edges: IntArray, draw: Callable[[Any, IntArray], Any], seed: int, directed: bool = False
) -> FloatArray:
    """Draw every connected part by itself and arrange the parts in rows, like words, the largest first."""
    igraph = _igraph()
    net = igraph.Graph(n=count, edges=edges.tolist(), directed=directed)
    part = np.array(net.connected_components(mode="weak").membership)
    sizes = np.bincount(part)
    by_part, first = np.argsort(part, kind="stable"), ptr_of(sizes)
    by_edge = np.argsort(part[edges[:, 0]], kind="stable") if len(edges) else np.zeros(0, np.int64)
    edge_ptr = ptr_of(np.bincount(part[edges[:, 0]], minlength=len(sizes)) if len(edges) else 0 * sizes)
    local = np.empty(count, np.int64)
    local[by_part] = np.arange(count) - first[part[by_part]]
    drawn = []
    with _random:
        igraph.set_random_number_generator(random.Random(seed))
        try:
            for p in range(len(sizes)):
                own = local[edges[by_edge[edge_ptr[p] : edge_ptr[p + 1]]]]
                at = np.zeros((1, 2))
                if sizes[p] > 1:
                    smaller = igraph.Graph(n=int(sizes[p]), edges=own.tolist(), directed=directed)
                    at = np.array(list(draw(smaller, own)), float)[: sizes[p]]
                drawn.append(at - at.min(axis=0))
        finally:
            igraph.set_random_number_generator(random)
    places = np.empty((count, 2))
    width = max(float(np.sqrt(sum(np.prod(at.max(axis=0) + 1.5) for at in drawn))) * 1.3, drawn[0].max() + 1.0)
    x = y = height = 0.0
    for p in np.argsort(-sizes, kind="stable").tolist():
        size = drawn[p].max(axis=0)
        if x > 0 and x + size[0] > width:
            x, y, height = 0.0, y + height + 1.5, 0.0
        places[by_part[first[p] : first[p + 1]]] = drawn[p] + (x, y)
        x, height = x + size[0] + 1.5, max(height, size[1])
    return places


# ---- factors --------------------------------------------------------------------------------------------


def _middles(s: Structure, at: FloatArray) -> FloatArray:
    """Return the mean place [F, 2] of the variables of each factor."""
    sums = np.stack([np.bincount(s.factor_of_edge, at[s.scope_vars, k], s.num_factors) for k in (0, 1)], axis=1)
    return sums / np.maximum(s.arity, 1)[:, None]


def _above_children(s: Structure, at: FloatArray, children: Sequence[int]) -> FloatArray:
    """Return places [F, 2] of factors near their children, on the way to the parents."""
    child = at[np.asarray(children, np.int64)]
    return child + 0.6 * (_middles(s, at) - child)


def _igraph() -> Any:
    import igraph

    return igraph
