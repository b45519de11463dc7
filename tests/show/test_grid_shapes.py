from __future__ import annotations

import pytest

import equifactor as ef
from equifactor.show.grid_shapes import grid_shape

PAIR = [[2.0, 1.0], [1.0, 2.0]]


@pytest.mark.parametrize(("rows", "cols"), [(2, 2), (2, 5), (5, 2), (3, 4), (7, 7)])
@pytest.mark.parametrize("wrap", [False, True])
def test_grids_are_seen(rows: int, cols: int, wrap: bool) -> None:
    assert grid_shape(ef.generators.ising_grid(rows, cols, wrap=wrap)) == (rows, cols)


def test_a_grid_is_seen_through_its_evidence() -> None:
    assert grid_shape(ef.generators.ising_grid(4, 5).condition({0: 1, 7: 0, 8: 1})) == (4, 5)


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
        assert grid_shape(graph) is None
