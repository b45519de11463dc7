"""Networks in layers: parents above their children, with room for every name and for every line.

Rows of variables alternate with rows of factors, and a factor stands in the row above its child. A line that passes
a row takes a place in that row, so that it crosses no name. igraph (Sugiyama) finds the order within the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.show.packing import pack_parts

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.structure import Structure

NAME = 18  # characters of a name that have room under its circle. Chosen by hand.
# Widths of a letter and of a capital, in units of the layout: a circle has the radius 0.3. Measured: DejaVu Sans.
_LETTER, _CAPITAL = 0.18, 0.215
ABOVE, BELOW = 0.4, 0.75  # reach of a row of variables above and below the centres of its circles, names included
_FACTOR = 0.15  # reach of a row of factors above and below their centres, and half of the width of a factor
_LINE = 0.06  # half of the width that a line has in a row. Chosen by hand.
_NARROWEST = 0.45  # half of the width of a variable with a short name. Chosen by hand.
_GAP = 0.15  # least distance of two nodes of a row. Chosen by hand.
_BETWEEN_ROWS = 0.18  # least distance of two rows. Chosen by hand.
_SLOPE, _MOST_SLOPE = 0.06, 1.0  # rows are farther apart by this share of their longest line, and by at most this much
_SHAPE = 1.4  # wanted ratio of width to height, because windows are wide. Chosen by hand.
_STRAIGHT = (1.0, 3.0, 30.0)  # weight of a piece of a line by how many of its ends are bends, as in [Gansner93]
_TRIES = 20  # orders that igraph starts from. Chosen by hand.
_TRIED_EDGES = 4000  # edges of all these tries together; large networks get fewer tries. Chosen by hand.
_MOST_BENDS = 3000  # bends of all lines, which take about two seconds to place. Measured on one core.
_TALLEST, _TALL = 60.0, 5.0  # Layers are not drawn if they are higher, and this many times higher than wide. By hand.
_SWEEPS = 80  # passes that move the nodes of a row towards their neighbours. Chosen by hand.


@dataclass(frozen=True)
class LayeredPlaces:
    """Places of variables [V, 2] and factors [F, 2], and the line of each of the E pairs of factor and variable.

    The points of a line lead downwards. Every second piece, from the first on, is vertical and lies within a row; the
    others lead from a row to the next one. A factor of one variable has no line.
    """

    variables: FloatArray
    factors: FloatArray
    routes: list[FloatArray]


def layered_places(s: Structure, children: Sequence[int], seed: int) -> LayeredPlaces | None:
    """Place a Bayesian network; return None if its layers are too many for a window, or take too long to draw.

    `children` are the variables [F] whose conditional distributions the factors are.
    """
    child = np.asarray(children, np.int64)
    large = np.flatnonzero(s.arity > 1)
    number = np.full(s.num_factors, -1)
    number[large] = s.num_vars + np.arange(len(large))
    pairs = np.flatnonzero(s.arity[s.factor_of_edge] > 1)
    to_child = s.scope_vars[pairs] == child[s.factor_of_edge[pairs]]
    parents = pairs[~to_child]
    widths = [name_width(s.variable_name(i)) for i in range(s.num_vars)]
    half = np.maximum(_NARROWEST, np.array(widths) / 2 + _GAP / 2)
    arcs = np.stack((s.scope_vars[parents], child[s.factor_of_edge[parents]]), axis=1)
    row = _rows_of(s.num_vars, arcs, 2 * half)
    layer = [*(2 * row).tolist(), *(2 * row[child[large]] - 1).tolist()]
    sides = [*half.tolist(), *([_FACTOR] * len(large))]
    ends = np.stack((s.scope_vars[pairs], number[s.factor_of_edge[pairs]]), axis=1)
    ends[to_child] = ends[to_child, ::-1]  # lines lead downwards: to the factor, then from the factor to its child
    steps = np.array(layer)[ends[:, 1]] - np.array(layer)[ends[:, 0]] - 1
    if steps.sum() > _MOST_BENDS:
        return None
    edges, chains = [], []
    for top, bottom in ends.tolist():
        chain = [top, *range(len(layer), len(layer) + layer[bottom] - layer[top] - 1), bottom]
        layer += range(layer[top] + 1, layer[bottom])
        sides += [_LINE] * (len(chain) - 2)
        edges += list(pairwise(chain))
        chains.append(chain)
    bend = np.arange(len(layer)) >= s.num_vars + len(large)
    drawing = _Drawing(np.array(layer), np.array(sides), bend, seed)
    at = pack_parts(np.array(edges, np.int64).reshape(-1, 2), drawing.sides, drawing.places, seed)
    width, height = np.ptp(at[: s.num_vars], axis=0)
    if height > max(_TALLEST, _TALL * width):
        return None
    factors = at[child] + (0.0, -ABOVE)
    factors[large] = at[s.num_vars : s.num_vars + len(large)]
    routes = [np.zeros((0, 2))] * len(s.scope_vars)
    for e, chain in zip(pairs.tolist(), chains, strict=True):
        routes[e] = _route(at[chain], np.array(layer)[chain])
    return LayeredPlaces(at[: s.num_vars], factors, routes)


def name_width(name: str) -> float:
    """Return the room of a name, in units of the layout."""
    shown = name[:NAME]
    return _LETTER * len(shown) + (_CAPITAL - _LETTER) * sum(letter.isupper() for letter in shown)


def _route(at: FloatArray, layer: IntArray) -> FloatArray:
    """Return the points of a line: where it enters and leaves every row; it starts and ends in the nodes."""
    above, below = _reach(layer)
    points = np.repeat(at, 2, axis=0)
    points[::2, 1] -= above
    points[1::2, 1] += below
    points[0], points[-1] = at[0], at[-1]
    return points


def _reach(layer: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return how far rows reach above and below the places of their nodes."""
    return np.where(layer % 2, _FACTOR, ABOVE), np.where(layer % 2, _FACTOR, BELOW)


def _rows_of(count: int, arcs: IntArray, width: FloatArray) -> IntArray:
    """Return the row [V] of each variable, with short lines, and rows that are not too wide for a window."""
    row = _short_lines(count, arcs)
    below: list[list[int]] = [[] for _ in range(count)]
    for parent, kid in arcs.tolist():
        below[parent].append(kid)
    height = ABOVE + BELOW + 2 * (_FACTOR + _BETWEEN_ROWS) + _SLOPE * 4
    most = max(float(np.sqrt(_SHAPE * height * width.sum())), float(width.max(initial=0.0)))
    at = 0
    while at <= row.max(initial=-1):
        room = {i: min((row[j] for j in below[i]), default=count) - at - 1 for i in np.flatnonzero(row == at).tolist()}
        total = sum(width[i] for i in room)
        for i in sorted(room, key=lambda i: (-room[i], i)):
            if total <= most or not room[i]:
                break
            row[i] += 1
            total -= width[i]
        at += 1
    return row


def _short_lines(count: int, arcs: IntArray) -> IntArray:
    """Return the rows [V] for which all arcs together are as short as possible, and parents stand above children.

    Every step moves a set of variables down by one row. A set that shortens the arcs most is a minimum cut.
    """
    import igraph

    row = np.zeros(count, np.int64)
    net = igraph.Graph(n=count, edges=arcs.tolist(), directed=True)
    for i in net.topological_sorting():
        row[i] = max((row[j] + 1 for j in net.predecessors(i)), default=0)
    gain = np.bincount(arcs[:, 0], minlength=count) - np.bincount(arcs[:, 1], minlength=count)
    source, sink = count, count + 1
    ends = [
        *((source, i) for i in np.flatnonzero(gain > 0).tolist()),
        *((i, sink) for i in np.flatnonzero(gain < 0).tolist()),
    ]
    room = np.abs(gain[[a if b == sink else b for a, b in ends]]).tolist() if ends else []
    while ends:
        tight = arcs[row[arcs[:, 1]] - row[arcs[:, 0]] == 1].tolist()
        cut = igraph.Graph(n=count + 2, edges=[*ends, *tight], directed=True).st_mincut(
            source, sink, [*room, *([int(gain[gain > 0].sum()) + 1] * len(tight))]
        )
        moved = [i for i in cut.partition[0] if i < count]
        if not gain[moved].sum() > 0:
            break
        row[moved] += 1
    return row - row.min(initial=0)


@dataclass(frozen=True)
class _Drawing:
    """All nodes N of a network: variables, factors, then the bends of lines, one for each row that a line passes."""

    layer: IntArray  # [N] rows of variables have even numbers, rows of factors odd ones
    sides: FloatArray  # [N] half of the width of each node
    bend: BoolArray  # [N] whether the node is a bend
    seed: int

    def places(self, net: Any, edges: IntArray, nodes: IntArray) -> FloatArray:
        """Return the places of the nodes of one connected part."""
        layer, sides = self.layer[nodes] - self.layer[nodes].min() // 2 * 2, self.sides[nodes]
        rows = _ordered(layer, edges, self.seed)
        weight = np.array(_STRAIGHT)[self.bend[nodes][edges].sum(axis=1)]
        ends, weight = np.concatenate((edges, edges[:, ::-1])), np.concatenate((weight, weight))
        degree: FloatArray = np.bincount(ends[:, 0], weight, len(nodes)).astype(float)
        x = np.zeros(len(nodes))
        for row in rows:
            x[row] = _apart(x[row], sides[row], degree[row])
        own = [np.flatnonzero(np.isin(ends[:, 0], row)) for row in rows]
        for sweep in range(_SWEEPS):
            for row, to in list(zip(rows, own, strict=True))[:: -1 if sweep % 2 else 1]:
                wanted = np.bincount(ends[to, 0], weight[to] * x[ends[to, 1]], len(x))[row] / degree[row]
                x[row] = _apart(wanted, sides[row], degree[row])
        _straighten(x, rows, sides, edges, self.bend[nodes])
        y, at = np.zeros(len(nodes)), 0.0
        above, below = _reach(layer)
        for k, row in enumerate(rows):
            if not len(row):
                continue
            y[row] = at + above[row]
            longest = np.abs(np.diff(x[edges[layer[edges[:, 0]] == k]], axis=1)).max(initial=0.0)
            at = float(y[row[0]] + below[row[0]]) + _BETWEEN_ROWS + min(_SLOPE * longest, _MOST_SLOPE)
        return np.stack((x, y), axis=1)


def _straighten(x: FloatArray, rows: list[IntArray], sides: FloatArray, edges: IntArray, bend: BoolArray) -> None:
    """Replace bends that follow each other in a line by a vertical piece where their neighbours leave room for it."""
    beside = {i: pair for row in rows for i, pair in zip(row.tolist(), _neighbours(row), strict=True)}
    after = {top: bottom for top, bottom in edges.tolist() if bend[top]}
    inner = set(after.values())
    for first in sorted(i for i in after if i not in inner):
        chain = [first]
        while bend[chain[-1]]:
            chain.append(after[chain[-1]])
        run, low, high = list[int](), -np.inf, np.inf
        for i in chain:
            left, right = beside[i]
            least = -np.inf if left is None else x[left] + sides[left] + sides[i] + _GAP
            most = np.inf if right is None else x[right] - sides[right] - sides[i] - _GAP
            if not bend[i] or min(high, most) < max(low, least):
                x[run] = np.clip(np.median(x[run]), low, high) if run else x[run]
                run, low, high = [], -np.inf, np.inf
            run, low, high = [*run, i], max(low, least), min(high, most)


def _neighbours(row: IntArray) -> list[tuple[int | None, int | None]]:
    """Return the nodes to the left and to the right of each node of a row; None at the ends."""
    padded = [None, *row.tolist(), None]
    return list(zip(padded[:-2], padded[2:], strict=True))


def _ordered(layer: IntArray, edges: IntArray, seed: int) -> list[IntArray]:
    """Return the nodes of each row from left to right, in the best of several orders that igraph finds."""
    import igraph

    rng = np.random.default_rng(seed)
    between = [edges[layer[edges[:, 0]] == k] for k in range(int(layer.max()))]
    best, least = np.zeros(len(layer)), np.inf
    for _ in range(max(1, min(_TRIES, _TRIED_EDGES // max(1, len(edges))))):
        new = rng.permutation(len(layer))  # new numbers of the nodes: the order that igraph finds depends on them
        net = igraph.Graph(n=len(layer), edges=new[edges].tolist(), directed=True)
        drawn = net.layout_sugiyama(layers=layer[np.argsort(new)].tolist(), maxiter=200).coords
        x = np.array(drawn)[: len(layer), 0][new]
        crossings = _crossings(x, between)
        if crossings < least:
            best, least = x, crossings
    rows = [np.flatnonzero(layer == k) for k in range(int(layer.max()) + 1)]
    return _exchanged([row[np.argsort(best[row], kind="stable")] for row in rows], edges)


def _crossings(x: FloatArray, between: list[IntArray]) -> int:
    """Return how many lines cross, given the lines between each row and the next."""
    total = 0
    for edges in between:
        top, bottom = x[edges[:, 0]], x[edges[:, 1]]
        total += int(np.count_nonzero((top[:, None] - top) * (bottom[:, None] - bottom) < 0)) // 2
    return total


def _exchanged(rows: list[IntArray], edges: IntArray) -> list[IntArray]:
    """Exchange neighbours in a row while this removes crossings."""
    lists = [row.tolist() for row in rows]
    place = {i: k for row in lists for k, i in enumerate(row)}
    above: dict[int, list[int]] = {i: [] for i in place}
    below: dict[int, list[int]] = {i: [] for i in place}
    for top, bottom in edges.tolist():
        above[bottom].append(top)
        below[top].append(bottom)

    def crossings(left: int, right: int) -> int:
        return sum(place[i] > place[j] for side in (above, below) for i in side[left] for j in side[right])

    for _ in range(_SWEEPS):
        changed = False
        for row in lists:
            for k in range(len(row) - 1):
                left, right = row[k : k + 2]
                if crossings(left, right) > crossings(right, left):
                    row[k : k + 2] = right, left
                    place[left], place[right] = k + 1, k
                    changed = True
        if not changed:
            break
    return [np.array(row, np.int64) for row in lists]


def _apart(wanted: FloatArray, half: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the places nearest to the wanted ones (weighted least squares), in order, and without overlap."""
    start = np.concatenate(([0.0], np.cumsum(half[:-1] + half[1:] + _GAP)))
    blocks: list[list[float]] = []  # of places that touch: the weighted sum of (wanted - start), weight, count
    for k in range(len(wanted)):
        blocks.append([weight[k] * (wanted[k] - start[k]), weight[k], 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            total, heavy, count = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + heavy, blocks[-1][2] + count]
    means = np.repeat([total / heavy for total, heavy, _ in blocks], [int(count) for *_, count in blocks])
    return means + start
