"""Where the variables and factors of a drawing stand: grids as grids, anything else by igraph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.graph.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.typing import BoolArray, FloatArray, IntArray

_MOST_STEPS = 8  # different distances between neighbours; a grid has two, a torus four
_SMALL = 300  # nodes up to which the slower and nicer of two layouts is used


@dataclass(frozen=True, eq=False)
class GraphLayout:
    """Positions in one plane, neighbours about 1 apart; the y axis points downwards."""

    variables: FloatArray  # [V, 2]
    factors: FloatArray  # [F, 2] where a factor of one variable stands on it, and one of two between them
    grid: tuple[int, int] | None  # rows and columns


def grid_shape(graph: FactorGraph) -> tuple[int, int] | None:
    """The rows and columns where the graph is a grid, also one around a torus, whose variables go row by row.

    Every two neighbours must share a factor of two variables, and no others may, nor may there be larger factors.
    Evidence takes variables out of factors: neighbours that are observed need not share one.
    """
    s = graph.structure
    if s.arity.max(initial=0) != 2:
        return None
    pair = s.scope_ptr[np.flatnonzero(s.arity == 2)]
    low, high = np.sort(np.stack((s.scope_vars[pair], s.scope_vars[pair + 1])), axis=0)
    found = np.unique(low * s.num_vars + high)
    steps = np.unique(high - low)
    if len(steps) > _MOST_STEPS:
        return None
    free = np.ones(s.num_vars, bool) if graph.observed is None else graph.observed < 0
    for cols in steps[(steps > 1) & (s.num_vars % np.maximum(steps, 1) == 0)].tolist():
        rows = s.num_vars // cols
        if rows > 1 and any(_covers(found, _grid_pairs(rows, cols, wrap), free) for wrap in (False, True)):
            return rows, cols
    return None


def _grid_pairs(rows: int, cols: int, wrap: bool) -> IntArray:
    """The pairs of neighbours, each as `low * V + high`, ascending."""
    at = np.arange(rows * cols).reshape(rows, cols)
    pairs = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    if wrap:
        pairs += [(at[:, 0], at[:, -1])] * (cols > 2) + [(at[0], at[-1])] * (rows > 2)
    return np.unique(np.concatenate([(i * at.size + j).ravel() for i, j in pairs]))


def _covers(found: IntArray, wanted: IntArray, free: BoolArray) -> bool:
    """Whether all pairs found are wanted, and all wanted ones of free variables are found."""
    if not np.isin(found, wanted).all():
        return False
    missing = np.setdiff1d(wanted, found)
    return not np.any(free[missing // len(free)] & free[missing % len(free)])


def laid_out(graph: FactorGraph) -> GraphLayout:
    """Positions of everything; the same graph gives the same ones."""
    shape = grid_shape(graph)
    s = graph.structure
    if shape is not None:
        variables = np.stack(np.divmod(np.arange(s.num_vars), shape[1])[::-1], axis=1).astype(float)
        return GraphLayout(variables, _between(graph, variables), shape)
    large = np.flatnonzero(s.arity > 2)
    positions = _by_forces(graph, large)
    factors = _between(graph, positions[: s.num_vars])
    factors[large] = positions[s.num_vars :]
    return GraphLayout(positions[: s.num_vars], factors, None)


def _between(graph: FactorGraph, variables: FloatArray) -> FloatArray:
    """[F, 2] the middle of each factor's variables; the origin for a factor of none."""
    s = graph.structure
    total = np.zeros((s.num_factors, 2))
    np.add.at(total, s.factor_of_edge, variables[s.scope_vars])
    return total / np.maximum(s.arity, 1)[:, None]


def _by_forces(graph: FactorGraph, large: IntArray) -> FloatArray:
    """[V + large, 2] positions by igraph: two variables that share a pair are joined, larger factors are nodes."""
    import igraph

    s = graph.structure
    pair = s.scope_ptr[np.flatnonzero(s.arity == 2)]
    node = np.full(s.num_factors, -1)
    node[large] = s.num_vars + np.arange(len(large))
    inside = node[s.factor_of_edge] >= 0
    edges = np.concatenate(
        (
            np.stack((s.scope_vars[pair], s.scope_vars[pair + 1]), axis=1),
            np.stack((s.scope_vars[inside], node[s.factor_of_edge[inside]]), axis=1),
        )
    )
    net = igraph.Graph(n=s.num_vars + len(large), edges=edges.tolist()).simplify()
    parts = net.connected_components()
    places = np.zeros((net.vcount(), 2))
    boxes = [_part(net.subgraph(nodes)) for nodes in parts]
    for nodes, own, corner in zip(parts, boxes, _shelves([np.ptp(b, axis=0) for b in boxes]), strict=True):
        places[nodes] = own - own.min(axis=0) + corner
    return places


def _part(net: Any) -> FloatArray:
    """[n, 2] the layout of one connected part, with edges of about length 1; always the same, as the start is."""
    n = net.vcount()
    if n == 1:
        return np.zeros((1, 2))
    circle = net.layout_circle()
    if n <= _SMALL:
        made = net.layout_kamada_kawai(seed=circle)
    else:
        made = net.layout_fruchterman_reingold(seed=circle, niter=300)
    xy = np.array(made.coords, float)
    ends = np.array(net.get_edgelist())
    length = float(np.median(np.linalg.norm(xy[ends[:, 0]] - xy[ends[:, 1]], axis=1)))
    return xy / (length or 1.0)


def _shelves(sizes: list[FloatArray]) -> FloatArray:
    """[parts, 2] corners that put boxes of these sizes beside each other, in rows of about one width."""
    room = np.array(sizes).reshape(-1, 2) + 1.0
    width = max(float(np.sqrt(room.prod(axis=1).sum()) * 1.3), float(room[:, 0].max(initial=1.0)))
    shelf = np.floor((np.cumsum(room[:, 0]) - 1e-9) / width).astype(int)
    row_height = np.zeros(shelf.max(initial=0) + 1)
    np.maximum.at(row_height, shelf, room[:, 1])
    top = ptr_of(np.ceil(row_height).astype(int))[:-1]
    corners = np.zeros_like(room)
    for row in range(len(row_height)):
        mine = shelf == row
        corners[mine, 0] = np.cumsum(room[mine, 0]) - room[mine, 0]
        corners[mine, 1] = top[row]
    return corners
