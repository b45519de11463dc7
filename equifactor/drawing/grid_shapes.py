"""Which graphs are grids, also given evidence or around a torus: their answers are images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.graph import FactorGraph

_MOST_STEPS = 8  # different distances between neighbours; a grid has two, a torus four


def grid_shape(graph: FactorGraph) -> tuple[int, int] | None:
    """The rows and columns where the graph is a grid, also one around a torus, whose variables go row by row.

    Every two neighbours must share a factor of two variables, and no others may, nor may there be larger factors.
    Evidence takes variables out of factors: neighbours that are observed need not share one.
    """
    s = graph.structure
    if s.arity.max(initial=0) != 2:
        return None
    pair = s.scope_ptr[np.flatnonzero(s.arity == 2)]
    first, second = s.scope_vars[pair], s.scope_vars[pair + 1]
    low, step = np.minimum(first, second), np.abs(first - second)
    steps = np.flatnonzero(np.bincount(step))
    if len(steps) > _MOST_STEPS:
        return None
    free = np.ones(s.num_vars, bool) if graph.observed is None else graph.observed < 0
    for cols in steps[(steps > 1) & (s.num_vars % steps == 0)].tolist():
        if s.num_vars > cols and _is_grid(low, step, free.reshape(-1, cols)):
            return s.num_vars // cols, cols
    return None


def _is_grid(low: IntArray, step: IntArray, free: BoolArray) -> bool:
    """Whether pairs are those of a grid with these free variables [rows, cols].

    A pair is known by its lower number and by the step to the higher one.
    """
    rows, cols = free.shape
    row, column = np.divmod(low, cols)
    right, below = (step == 1) & (column < cols - 1), step == cols
    around = (step == cols - 1) & (column == 0) & (cols > 2), (step == cols * (rows - 1)) & (row == 0) & (rows > 2)
    if not (right | below | around[0] | around[1]).all():
        return False
    sides = [(right, free[:, :-1] & free[:, 1:]), (below, free[:-1] & free[1:])]
    if around[0].any() or around[1].any():  # a torus
        sides += [
            (around[0], (free[:, :1] & free[:, -1:]) & (cols > 2)),
            (around[1], (free[:1] & free[-1:]) & (rows > 2)),
        ]
    for have, wanted in sides:
        found = np.zeros(free.shape, bool)
        found.ravel()[low[have]] = True
        if np.any(wanted & ~found[: wanted.shape[0], : wanted.shape[1]]):
            return False
    return True
