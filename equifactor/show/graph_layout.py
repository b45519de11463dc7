"""Layouts: where variables and factors are drawn. Grids as grids, networks in layers, other graphs by forces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.show.grid_shapes import Grid, grid_of, pairs_of
from equifactor.show.layered_layout import layered_places
from equifactor.show.packing import pack_parts

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph
    from equifactor.graph.structure import Structure

# Variables of a network drawn in layers; larger networks take long to lay out and are too wide. Chosen by hand.
_MOST_LAYERED = 150
_MOST_AS_TREE = 2000  # Nodes of a tree drawn as a tree. Chosen by hand.
# Nodes of a layout with a spring between every two nodes, which looks best and costs most. Chosen by hand.
_MOST_SPRINGS = 300
_MOST_PAIRS = 1500  # Nodes of a layout in which all pairs repel each other; in larger ones only near pairs do.
_CHAIN_ROW = 24  # Variables in one row of a chain. Chosen by hand.
_PIVOTS = 40  # Nodes from which distances are measured for the start of a layout. Chosen by hand.
_NODE_SIDE = 0.7  # Side of the square that a node has on average, at least, in a layout by forces. Chosen by hand.
_APART, _PUSHES = 0.75, 150  # Least distance of nodes that springs placed, and most steps to reach it. Chosen by hand.
_NODE_AREA = 1.2  # Area that a node has on average, at least, in a layout of more than `_MOST_SPRINGS` nodes. By hand.


@dataclass(frozen=True)
class Places:
    """Coordinates of all variables and factors. Neighbours are about 1 apart; y points down."""

    kind: str  # grid, rows, layers, tree or force
    variables: FloatArray  # [V, 2]
    factors: FloatArray  # [F, 2]
    grid: tuple[int, int] | None = None  # rows and columns
    routes: list[FloatArray] | None = None  # lines [E] of layers; see `LayeredPlaces`


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
        drawn = layered_places(s, children, seed)
        if drawn is not None:
            return Places("layers", drawn.variables, drawn.factors, routes=drawn.routes)
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
    """Return the variables of a chain, starting at the end with the lower number; None if there is no chain."""
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


# ---- trees, forces ---------------------------------------------------------------------------------------


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
        return "tree", pack_parts(edges, np.zeros(count), _as_tree, seed)
    return "force", pack_parts(edges, np.zeros(count), _forces, seed)


def _as_tree(net: Any, edges: IntArray, nodes: IntArray) -> Any:
    return net.layout_reingold_tilford()


def _forces(net: Any, edges: IntArray, nodes: IntArray) -> FloatArray:
    """Place nodes by springs and repulsion, from a start that has the right global shape."""
    count = net.vcount()
    start = _start(net, edges)
    if count <= _MOST_SPRINGS:
        return _apart(_scaled(np.array(net.layout_kamada_kawai(seed=start.tolist()).coords), edges))
    near_only = count > _MOST_PAIRS
    steps = 500 if count <= 500 else 150 if not near_only else 60 if count <= 4000 else 30
    heat = max(1.0, np.sqrt(count) / (40 if near_only else 10))
    at = net.layout_fruchterman_reingold(seed=start.tolist(), niter=steps, start_temp=heat, grid=near_only)
    places = _scaled(np.array(at.coords), edges)
    # If every node is near every other, as in random graphs, edges must be longer for the nodes to have room.
    area = float(np.prod(np.ptp(places, axis=0) + 1.0))
    return places * max(1.0, float(np.sqrt(_NODE_AREA * count / area)))


def _apart(at: FloatArray) -> FloatArray:
    """Move nodes that lie on each other apart, the rest as little as possible."""
    for _ in range(_PUSHES):
        ways = at[:, None] - at[None]
        far = np.linalg.norm(ways, axis=2) + np.diag(np.full(len(at), np.inf))
        if far.min(initial=np.inf) > 0.97 * _APART:
            break
        push = np.maximum(_APART - far, 0.0) / (2 * np.maximum(far, 1e-6))
        at = at + (push[:, :, None] * ways).sum(axis=1)
    return at


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


# ---- factors --------------------------------------------------------------------------------------------


def _middles(s: Structure, at: FloatArray) -> FloatArray:
    """Return the mean place [F, 2] of the variables of each factor."""
    sums = np.stack([np.bincount(s.factor_of_edge, at[s.scope_vars, k], s.num_factors) for k in (0, 1)], axis=1)
    return sums / np.maximum(s.arity, 1)[:, None]


def _igraph() -> Any:
    import igraph

    return igraph
