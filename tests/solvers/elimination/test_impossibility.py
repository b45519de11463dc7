"""Proofs that no assignment is possible."""

import math

import numpy as np
import pytest

from equifactor import FactorGraph, Status
from equifactor.base.clock import Clock
from equifactor.solvers.elimination.impossibility import proven_impossible, zero_by_exclusion, zero_or_lost


def all_different(variables: int, states: int) -> FactorGraph:
    """Return a graph in which every two variables differ; each state has support, with or without a solution."""
    pairs = [[i, j] for i in range(variables) for j in range(i)]
    return FactorGraph([states] * variables, [(pair, 1.0 - np.eye(states)) for pair in pairs])


@pytest.mark.parametrize(("variables", "states"), [(3, 2), (4, 3), (5, 4), (6, 5)])
def test_more_variables_than_states_cannot_all_differ(variables: int, states: int) -> None:
    assert proven_impossible(all_different(variables, states))
    assert not proven_impossible(all_different(variables - 1, states))


def test_evidence_may_exclude_all_assignments() -> None:
    graph = all_different(3, 3)
    assert not proven_impossible(graph.condition({0: 0, 1: 1}))
    assert proven_impossible(graph.condition({0: 0, 1: 1, 2: 1}))


def test_a_constant_of_zero_is_a_proof() -> None:
    assert proven_impossible(FactorGraph([2], [([], 0.0), ([0], [1.0, 1.0])]))
    assert not proven_impossible(FactorGraph([2, 3]))


def test_a_proof_that_would_take_long_is_not_attempted() -> None:
    graph = all_different(12, 11)
    assert not proven_impossible(graph)
    lost = zero_or_lost(graph)
    assert lost.status is Status.NON_FINITE
    assert lost.log_z is None
    assert "proves nothing" in lost.message
    assert (
        zero_by_exclusion(graph).status is Status.ZERO_PROBABILITY
    )  # a method that has excluded all assignments has proven it


def test_a_clock_that_has_stopped_allows_no_proof() -> None:
    assert not proven_impossible(all_different(3, 2), Clock(0.0))


def test_sums_that_overflow_exclude_nothing() -> None:
    large = [[-1e308, -1e308], [-1e308, -math.inf]]
    graph = FactorGraph([2, 2], [([0, 1], large), ([1, 0], large)], log=True)
    assert zero_by_exclusion(graph).status is Status.NON_FINITE
    assert zero_or_lost(graph).status is Status.NON_FINITE
