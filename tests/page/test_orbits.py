"""Which variables and factors are interchangeable."""

from __future__ import annotations

import numpy as np

import equifactor as ef
from equifactor import FactorGraph
from equifactor.page.orbits import joined, orbits_of

SAME = [[1.0, 2.0], [2.0, 1.0]]
LONG = 600.0  # seconds: a busy machine must not cut a search short


def square_grid(n: int) -> FactorGraph:
    across = [((r * n + c, r * n + c + 1), SAME) for r in range(n) for c in range(n - 1)]
    down = [((r * n + c, r * n + c + n), SAME) for r in range(n - 1) for c in range(n)]
    return FactorGraph([2] * n * n, across + down)


def test_a_grid_of_equal_factors() -> None:
    found = orbits_of(square_grid(3), seconds=LONG)
    assert found.complete
    assert found.generators > 0
    corners, sides, middle = (set(found.variables[at].tolist()) for at in ([0, 2, 6, 8], [1, 3, 5, 7], [4]))
    assert len(corners) == len(sides) == len(middle) == len(corners | sides | middle) / 3 == 1
    assert not set(found.variables.tolist()) & set(found.factors.tolist())
    assert found.to_dict()["orbits"] == 5
    assert "9 variables in 3 orbits and 12 factors in 2 orbits" in found.text


def test_a_model_without_symmetries() -> None:
    found = orbits_of(ef.generators.ising_grid(4, 4, seed=0), seconds=LONG)
    assert len(set(found.variables.tolist())) == 16
    assert found.text.startswith("No two variables and no two factors")


def test_parities_and_renamed_states() -> None:
    parities = [(range(4), ef.Parity()), (range(4, 8), ef.Parity())]
    unary = [([i], [0.6, 0.4] if i % 4 < 2 else [0.4, 0.6]) for i in range(8)]
    found = orbits_of(FactorGraph([2] * 8, [*parities, *unary]), seconds=LONG)
    assert found.variables.tolist() == [0] * 8
    assert len(set(found.factors.tolist())) == 2


def test_classes_where_time_runs_out() -> None:
    found = orbits_of(square_grid(3), seconds=0.0)
    assert not found.complete
    assert found.generators == 0
    assert found.text.startswith("The search took more than 0 s. The page shows classes of colour refinement instead")
    np.testing.assert_array_equal(found.variables, orbits_of(square_grid(3), seconds=LONG).variables)


def test_orbits_of_generators() -> None:
    turn = np.array([[1, 2, 3, 4, 0, 5, 6], [0, 1, 2, 3, 4, 6, 5]])
    assert joined(7, turn).tolist() == [0, 0, 0, 0, 0, 5, 5]
    assert joined(3, turn[:0]).tolist() == [0, 1, 2]
