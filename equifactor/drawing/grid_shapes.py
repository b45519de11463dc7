"""Which graphs are grids, also given evidence or around a torus: their answers are images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.typing import BoolArray, IntArray

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
