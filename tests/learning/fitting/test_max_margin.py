"""Structured support vector machines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fields import draw, loop

import equifactor as ef
from equifactor import Status


def chain() -> ef.FactorGraph:
    """Return four labels with an input each: two labels equal their inputs, and two are opposite to these two."""
    labels, inputs = range(4), range(4, 8)
    factors = [([x, y], np.ones((2, 2))) for x, y in zip(inputs, labels, strict=True)]
    factors += [([0, 2], np.ones((2, 2))), ([1, 3], np.ones((2, 2)))]
    return ef.FactorGraph([2] * 8, factors)


def separable(count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, (count, 2))
    noise = rng.integers(0, 2, (count, 2))
    return np.hstack((first, 1 - first, first, noise))


@pytest.mark.parametrize("memory", [1.0, 1e-9])
def test_separable_data_are_separated(memory: float) -> None:
    """Test with exact MAP, and with the MAP of a solver."""
    rows = separable(20)
    found = ef.fit(chain(), rows, "max-margin", given="4,5,6,7", l2=0.01, memory_limit=memory, validation=separable(40))
    assert found.status is Status.CONVERGED
    assert "gets 0.00% of the labels of the rows wrong, and 0.00% of the labels of the validation rows" in found.message
    assert ("srmp was used" in found.message) == (memory < 1)
    for row in separable(10):
        best = ef.solve(found.graph.condition({i: int(row[i]) for i in range(4, 8)}), "MAP", "exact")
        assert best.assignment.tolist() == row.tolist()


def test_the_bundle_finds_the_minimum() -> None:
    """Compare the objective with a long descent along subgradients."""
    from equifactor.base.clock import Clock
    from equifactor.learning.fitting.data_rows import read_data
    from equifactor.learning.fitting.fit_method import FitContext
    from equifactor.learning.fitting.learned_parameters import LearnedParameters
    from equifactor.learning.fitting.max_margin_oracle import MarginOracle

    graph, rows = loop(), draw(loop(), 40)
    found = ef.fit(graph, rows, "max-margin", given="0", l2=1.0, tolerance=1e-5)
    assert found.status is Status.CONVERGED
    gaps = [entry["gap"] for entry in found.history]
    assert gaps[-1] <= 1e-5
    assert min(gaps) > -1e-12
    parameters = LearnedParameters(graph, FitContext(clock=Clock()))
    oracle = MarginOracle(parameters, read_data(graph, rows), np.array([0]), "srmp", 1.0)
    theta, best = np.zeros(parameters.size), np.inf
    for n in range(1, 200):
        slope, offset = oracle.plane(theta, Clock())
        best = min(best, offset + slope @ theta + 0.5 / 40 * theta @ theta)
        theta = theta - (slope + theta / 40) * 40 / n
    assert found.history[-1]["objective"] <= best + 1e-5
    assert found.history[-1]["objective"] == pytest.approx(best, abs=0.03)


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    rows = draw(loop(), 40)
    whole = ef.fit(loop(), rows, "max-margin", given="0")
    part = ef.fit(loop(), rows, "max-margin", given="0", time_limit=0.0, checkpoint=tmp_path / "fit.npz")
    assert part.status is Status.TIME_LIMIT
    rest = ef.fit(loop(), rows, "max-margin", given="0", checkpoint=tmp_path / "fit.npz")
    assert rest.history[-1]["objective"] == pytest.approx(whole.history[-1]["objective"], abs=1e-3)
    assert ef.fit(loop(), rows, "max-margin", given="0", iterations=2).status is Status.ITERATION_LIMIT


def test_factors_of_other_kinds_hold() -> None:
    """Under a parity, only the unaries can prefer the right one of the two even assignments of a row."""
    graph = ef.FactorGraph([2] * 4, [([2, 0], np.ones((2, 2))), ([3, 1], np.ones((2, 2))), ([0, 1], ef.Parity())])
    rows = [[0, 0, 0, 1], [1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]]
    found = ef.fit(graph, rows, "max-margin", given="2,3", l2=0.01)
    assert found.status is Status.CONVERGED
    assert "0.00% of the labels of the rows wrong" in found.message
    assert "srmp" not in found.message
    with pytest.raises(ef.ModelError, match="A row of the data has probability zero"):
        ef.fit(graph, [[0, 1, 0, 0]], "max-margin")
