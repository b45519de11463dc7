"""BP says so where its beliefs vanish although nothing excludes a state."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import FactorGraph, solve
from equifactor.base.status import Task
from equifactor.generators import ising_grid
from equifactor.solvers import parse_solver
from equifactor.solving.solver import SolveContext

SAME = np.eye(2)
PAIRS = [([i, j], SAME) for i in range(4) for j in range(i)]
ALL_ALIKE = FactorGraph([2] * 4, [*PAIRS, ([0], [0.6, 0.4])])  # BP counts the one field again with every sweep


@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize("task", ["MAR", "PR"])
def test_evidence_counted_again_and_again_is_reported(engine: str, task: str) -> None:
    few, many = (solve(ALL_ALIKE, task, f"bp(iterations={n}, tolerance=0, engine={engine})") for n in (2, 50))
    assert "vanished" not in few.stats
    assert many.stats["vanished"] == 4
    assert "4 states that nothing excludes" in many.message


def test_each_graph_of_a_batch_is_counted_by_itself() -> None:
    results = solve([ising_grid(3, 3, seed=1), ALL_ALIKE], "MAR", "bp(iterations=50, tolerance=0)")
    assert ["vanished" in r.stats for r in results] == [False, True]


def test_strong_evidence_is_no_such_state() -> None:
    graph = ising_grid(3, 3, coupling_std=0.3, seed=1).with_factor([0], [0.0, -800.0], log=True)
    result = solve(graph, "MAR", "bp(damping=0.5)")
    assert result.marginals[0][1] == 0.0
    assert "vanished" not in result.stats


def test_true_zeros_are_no_such_states() -> None:
    graph = FactorGraph([2, 2], [([0, 1], [[1.0, 0.0], [1.0, 1.0]]), ([0], [1.0, 0.0])])
    estimate = parse_solver("bp").run([graph], Task.MAR, SolveContext())[
        0
    ]  # `solve` would strike these states out before
    np.testing.assert_array_equal(estimate.marginals.values, [1.0, 0.0, 1.0, 0.0])
    assert "vanished" not in estimate.stats
