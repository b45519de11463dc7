from __future__ import annotations

import numpy as np
import pytest

import equifactor as ef
from equifactor.show.grid_shapes import Grid, grid_of

PAIR = [[2.0, 1.0], [1.0, 2.0]]


def found(graph: ef.FactorGraph) -> Grid:
    grid = grid_of(graph)
    assert grid is not None
    return grid


@pytest.mark.parametrize(("rows", "cols"), [(2, 2), (2, 5), (5, 2), (3, 4), (7, 7)])
@pytest.mark.parametrize("wrap", [False, True])
def test_grids_are_seen(rows: int, cols: int, wrap: bool) -> None:
    grid = found(ef.generators.ising_grid(rows, cols, wrap=wrap))
    assert (grid.rows, grid.columns) == (rows, cols)
    assert grid.wraps == (wrap and max(rows, cols) > 2)
    np.testing.assert_array_equal(grid.cells[:, 1] * cols + grid.cells[:, 0], np.arange(rows * cols))


def test_a_grid_is_seen_through_its_evidence() -> None:
    grid = found(ef.generators.ising_grid(4, 5).condition({0: 1, 7: 0, 8: 1}))
    assert (grid.rows, grid.columns) == (4, 5)


def test_a_grid_in_any_order_is_seen() -> None:
    graph = ef.generators.ising_grid(3, 5)
    other = ef.symmetry.relabel(graph, ef.symmetry.Relabelling.random(graph, seed=2))
    grid = found(other)
    assert sorted((grid.rows, grid.columns)) == [3, 5]
    scopes = [other.structure.scope(a) for a in range(other.num_factors) if other.structure.arity[a] == 2]
    assert all(np.abs(np.diff(grid.cells[scope], axis=0)).sum() == 1 for scope in scopes)


def test_what_is_no_grid() -> None:
    grid = ef.generators.ising_grid(3, 4)
    chain = ef.FactorGraph([2] * 6, [([i, i + 1], PAIR) for i in range(5)])
    for graph in (
        chain,
        ef.FactorGraph([2] * 6),
        ef.FactorGraph([2] * 6, [*((s.tolist(), PAIR) for s in map(chain.structure.scope, range(5))), ([0, 2], PAIR)]),
        grid.with_factors([([0, 5], PAIR)]),  # a diagonal
        grid.with_factors([([0, 1, 2], ef.Parity())]),
        ef.FactorGraph([2] * 12, [([i, i + 4], PAIR) for i in range(8)]),  # columns without rows
        grid.with_factors([([0, 3], PAIR)]),  # one row goes round, the others do not
        grid.with_factors([([3, 4], PAIR)]),  # the end of a row and the begin of the next
    ):
        assert grid_of(graph) is None
