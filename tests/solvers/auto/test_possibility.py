"""A formula without solutions gets a proof, or a lower bound on ln Z that allows for no solution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from equifactor import Clause, FactorGraph, NoisyOr, Parity, Status, solve
from equifactor.graph.possible_states import zeros_alone
from equifactor.solvers import Estimate, parse_solver
from equifactor.solvers.auto.ladder_answers import LadderAnswer
from equifactor.solvers.auto.possibility import (
    are_contradictory,
    has_hard_structure,
    with_possibility,
)


def parities(seed: int, num_vars: int, count: int, arity: int = 3) -> FactorGraph:
    rng = np.random.default_rng(seed)
    factors: list[Any] = [
        (rng.permutation(num_vars)[:arity].tolist(), Parity(bool(rng.integers(2)))) for _ in range(count)
    ]
    soft = (list(range(num_vars))[:2], Parity(log_values=(0.3, -0.4)))
    return FactorGraph([2] * num_vars, [*factors, soft])


@pytest.mark.parametrize("seed", range(12))
def test_parity_equations_agree_with_enumeration(seed: int) -> None:
    graph = parities(seed, 6, 5)
    if seed % 3 == 0:
        graph = graph.condition({0: seed % 2, 4: 1})
    impossible = solve(graph, "PR", "brute").status is Status.ZERO_PROBABILITY
    assert are_contradictory(graph) == impossible


def test_other_graphs_have_no_parity_equations() -> None:
    assert not are_contradictory(FactorGraph([2, 2], [([0, 1], np.zeros((2, 2)))]))
    assert not are_contradictory(FactorGraph([2, 2], [([0, 1], Clause([True, False]))]))


def test_which_graphs_are_formulas() -> None:
    assert has_hard_structure(FactorGraph([2, 2], [([0, 1], Clause())]))
    assert not has_hard_structure(FactorGraph([2, 2], [([0, 1], Clause(weight=1.0)), ([0, 1], np.eye(2))]))
    assert not has_hard_structure(FactorGraph([2, 2], [([0, 1], np.eye(2))]))


def test_zeros_alone_keeps_the_possible_assignments() -> None:
    factors: list[Any] = [
        ([0, 1, 2], Clause([True, False, True])), ([1, 2], [[0.0, 2.0], [3.0, 0.5]]),
        ([0, 3], Parity(log_values=(1.0, -np.inf))), ([3, 1, 2], NoisyOr(0.0, [0.2, 0.0])),
    ]  # fmt: skip
    graph = FactorGraph([2] * 4, factors)
    states = np.indices((2,) * 4).reshape(4, -1).T
    zeros, scores = zeros_alone(graph).log_score(states), graph.log_score(states)
    assert np.array_equal(np.isneginf(zeros), np.isneginf(scores))
    without = FactorGraph([2] * 4, factors[:3])
    assert set(zeros_alone(without).log_score(states).tolist()) == {0.0, -np.inf}


def test_auto_proves_that_parities_contradict_each_other() -> None:
    graph = parities(0, 90, 110)
    for task in ("PR", "MAR"):
        result = solve(graph, task, "auto(memory_limit=0)")
        assert result.status is Status.ZERO_PROBABILITY
        assert "parity equations" in result.message
    assert solve(graph, "PR", "auto(memory_limit=0)").log_z == -math.inf


def _answer(**fields: Any) -> LadderAnswer:
    return LadderAnswer(parse_solver("bp"), Estimate(status=Status.CONVERGED, **fields), 0.1)


@pytest.mark.parametrize(
    ("score", "answers", "bound"),
    [
        (-math.inf, [_answer(log_z=3.0)], -math.inf),
        (1.5, [_answer(log_z=3.0)], 1.5),
        (1.5, [_answer(log_z=3.0, lower_bound=2.0)], 2.0),
        (-math.inf, [_answer(log_z=3.0, log_z_error=0.1)], None),  # samples are possible assignments
    ],
)
def test_the_lower_bound_says_what_is_known(score: float, answers: list[LadderAnswer], bound: float | None) -> None:
    estimate = answers[0].estimate
    formula = FactorGraph([2, 2], [([0, 1], Clause())])
    found = with_possibility(estimate, formula, score, answers)
    assert found.lower_bound == bound
    assert ("No possible assignment was found" in found.message) == (bound == -math.inf)
    positive = FactorGraph([2, 2], [([0, 1], np.ones((2, 2)))])
    assert with_possibility(estimate, positive, score, answers) is estimate
