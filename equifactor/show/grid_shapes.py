"""Grids: which graphs are grids, and in which row and column each variable lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.graph import FactorGraph
    from equifactor.graph.structure import Structure

_MOST_STEPS = 8  # different distances between the numbers of neighbours: a grid has two, a torus has four


@dataclass(frozen=True)
class Grid:
    """The shape of a grid and the cell of every variable."""

    rows: int
    columns: int
    cells: IntArray  # [V, 2] the column and the row of each variable
    wraps: bool = False  # whether it is a torus, whose first and last rows and columns are neighbours


def grid_of(graph: FactorGraph) -> Grid | None:
    """Return the grid that a graph forms, or None.

    In a grid, every two neighbours share a factor of two variables, and no other factor has two or more variables.
    If variables are numbered row by row, a torus is found too, and so is a grid with evidence: evidence removes
    variables from factors, so two neighbours need not share a factor if one of them is observed.
    """
    s = graph.structure
    if s.arity.max(initial=0) != 2:
        return None
    free = np.ones(s.num_vars, bool) if graph.observed is None else graph.observed < 0
    pairs = pairs_of(s)
    return _numbered_by_rows(pairs, free) or _in_any_order(s.num_vars, pairs)


def pairs_of(s: Structure) -> IntArray:
    """Return the pairs [n, 2] of variables that a factor of two variables joins, without repetition, lower first."""
    start = s.scope_ptr[:-1][s.arity == 2]
    pairs = np.sort(np.stack((s.scope_vars[start], s.scope_vars[start + 1]), axis=1), axis=1)
    return np.unique(pairs, axis=0)


def _numbered_by_rows(pairs: IntArray, free: BoolArray) -> Grid | None:
    """Return the grid or torus whose variables are numbered row by row; `free` [V] are those without evidence."""
    num_vars = len(free)
    low, step = pairs[:, 0], pairs[:, 1] - pairs[:, 0]
    steps = np.flatnonzero(np.bincount(step))
    if len(steps) > _MOST_STEPS:
        return None
    for cols in steps[(steps > 1) & (num_vars % steps == 0) & (steps < num_vars)].tolist():
        wraps = _wraps(low, step, free.reshape(-1, cols))
        if wraps is not None:
            row, column = np.divmod(np.arange(num_vars), cols)
            return Grid(num_vars // cols, cols, np.stack((column, row), axis=1), wraps)
    return None


def _wraps(low: IntArray, step: IntArray, free: BoolArray) -> bool | None:
    """Return True if the pairs form a torus over the free variables [rows, cols], False for a grid, None for neither.

    A pair is given by its lower number and by the step to the higher one.
    """
    rows, cols = free.shape
    row, column = np.divmod(low, cols)
    right, below = (step == 1) & (column < cols - 1), step == cols
    around = (step == cols - 1) & (column == 0) & (cols > 2), (step == cols * (rows - 1)) & (row == 0) & (rows > 2)
    if not (right | below | around[0] | around[1]).all():
        return None
    sides = [(right, free[:, :-1] & free[:, 1:]), (below, free[:-1] & free[1:])]
    torus = bool(around[0].any() or around[1].any())
    if torus:
        sides += [
            (around[0], (free[:, :1] & free[:, -1:]) & (cols > 2)),
            (around[1], (free[:1] & free[-1:]) & (rows > 2)),
        ]
    for have, wanted in sides:
        found = np.zeros(free.shape, bool)
        found.ravel()[low[have]] = True
        if np.any(wanted & ~found[: wanted.shape[0], : wanted.shape[1]]):
            return None
    return torus


def _in_any_order(num_vars: int, pairs: IntArray) -> Grid | None:
    """Return the grid that the pairs [n, 2] form exactly, whatever the order of its variables.

    The distances of a variable from two corners at the ends of one side give its cell. The first row lies between
    the corner with the lowest number and the lower one of the two corners next to it.
    """
    degree = np.bincount(pairs.ravel(), minlength=num_vars)
    corners = np.flatnonzero(degree == 2)
    if num_vars < 4 or len(corners) != 4 or degree.max() > 4:
        return None
    import igraph

    net = igraph.Graph(n=num_vars, edges=pairs.tolist())
    far = np.array(net.distances(source=corners.tolist()))  # [4, V]
    if not np.isfinite(far).all():
        return None
    near = corners[1:][np.argsort(far[0, corners[1:]], kind="stable")[:2]]
    along = int(near.min())
    columns = int(far[0, along]) + 1
    first, second = far[0].astype(int), far[int(np.flatnonzero(corners == along)[0])].astype(int)
    twice_row, twice_column = first + second - (columns - 1), first - second + columns - 1
    rows = num_vars // columns
    if rows * columns != num_vars or (twice_row % 2).any() or len(pairs) != rows * (columns - 1) + columns * (rows - 1):
        return None
    cells = np.stack((twice_column, twice_row), axis=1) // 2
    inside = (cells >= 0).all() and cells[:, 0].max() < columns and cells[:, 1].max() < rows
    steps = np.abs(cells[pairs[:, 0]] - cells[pairs[:, 1]]).sum(axis=1)
    if not inside or (steps != 1).any() or len(np.unique(cells[:, 1] * columns + cells[:, 0])) < num_vars:
        return None
    return Grid(rows, columns, cells)
