"""Iterations on models without a possible assignment: the answer becomes zero-probability, or carries advice."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import FactorGraph, Status, solve
from equifactor.questions import possible_answers

DIFFERENT = [[0.0, 1.0], [1.0, 0.0]]


def ring(n: int) -> FactorGraph:
    """Spins on a ring that all differ from their neighbours: impossible if n is odd, and messages settle at 1/2."""
    return FactorGraph([2] * n, [([i, (i + 1) % n], DIFFERENT) for i in range(n)])


@pytest.mark.parametrize("task", ["MAR", "PR"])
@pytest.mark.parametrize("solver", ["bp", "trw", "fe-nbp", "fe-net"])
def test_no_solver_converges_on_an_impossible_ring(solver: str, task: str) -> None:
    got = solve([ring(5), ring(6)], task, solver)
    assert got[0].status is Status.ZERO_PROBABILITY
    assert got[1].status is not Status.ZERO_PROBABILITY
    assert "No assignment" not in got[1].message


@pytest.mark.parametrize("solver", ["bp(iterations=3, tolerance=0)", "trw(iterations=0)"])
def test_an_iteration_that_has_not_settled_is_checked_too(solver: str) -> None:
    got = solve([ring(5), ring(6)], "PR", solver)
    assert [result.status for result in got] == [Status.ZERO_PROBABILITY, Status.ITERATION_LIMIT]


def test_a_large_model_carries_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(possible_answers, "_MOST_ENTRIES", 8)
    got = solve(ring(5), "MAR", "bp")
    assert got.status is Status.CONVERGED
    assert "No assignment of positive probability is known" in got.message


def test_a_small_model_that_is_too_hard_to_decide_carries_advice() -> None:
    pairs = [([i, j], 1.0 - np.eye(8)) for i in range(9) for j in range(i)]  # nine neighbours share eight colours
    got = solve(FactorGraph([8] * 9, pairs), "MAR", "bp(iterations=3)")
    assert "No assignment of positive probability is known" in got.message


def test_a_possible_decoded_assignment_needs_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(possible_answers, "_MOST_ENTRIES", 0)
    biased = FactorGraph([2] * 6, [*(([i, (i + 1) % 6], DIFFERENT) for i in range(6)), ([0], np.array([0.9, 0.1]))])
    got = solve(biased, "MAR", "bp(damping=0.5)")
    assert got.status is Status.CONVERGED
    assert "No assignment" not in got.message
