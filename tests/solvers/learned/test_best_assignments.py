"""The best assignments of a learned MAP run, combined part by part."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from equifactor import FactorGraph, solve
from equifactor.base.status import Status
from equifactor.generators import ising_grid, random_graph
from equifactor.graph import compile
from equifactor.solvers.learned.best_assignments import (
    BestAssignments,
    batch_log_scores,
    best_of,
    combined,
    with_better_parts,
)
from equifactor.solving.estimate import Estimate


def _crossed(graph: FactorGraph, first: np.ndarray, second: np.ndarray) -> float:
    """Return the best log score of all assignments that mix the two."""
    differs = np.flatnonzero(first != second)
    scores = []
    for choice in itertools.product((False, True), repeat=len(differs)):
        mixed = first.copy()
        mixed[differs[list(choice)]] = second[differs[list(choice)]]
        scores.append(graph.log_score(mixed))
    return max(scores)


def test_isolated_changes_give_the_best_mixture() -> None:
    """If no two changed variables share a factor, every mixture is within reach."""
    graph = ising_grid(4, 4, coupling_std=2.0, seed=1)
    flat = compile([graph])
    rng = np.random.default_rng(0)
    apart = np.array([0, 2, 5, 7, 8, 10, 13, 15])  # the black fields of a chess board
    for _ in range(20):
        first = rng.integers(2, size=16)
        second = first.copy()
        second[apart] = rng.integers(2, size=len(apart))
        mixed = with_better_parts(flat, first, second)
        assert graph.log_score(mixed) == pytest.approx(_crossed(graph, first, second))


@pytest.mark.parametrize("zeros", [0.0, 0.2])
def test_a_mixture_is_never_worse_than_either_possible_assignment(zeros: float) -> None:
    rng = np.random.default_rng(1)
    graphs = random_graph(8, 9, arity=(1, 3), card=(2, 3), zeros=zeros, count=12, seed=2)
    flat = compile(graphs)
    for _ in range(20):
        first, second = (np.concatenate([rng.integers(g.structure.card) for g in graphs]) for _ in range(2))
        with np.errstate(invalid="raise"):
            best = BestAssignments(flat)
            best.note(first)
            best.note(second)
        for given in (first, second):
            assert np.all(best.score >= batch_log_scores(flat, given) - 1e-9)
        assert best.score == pytest.approx(batch_log_scores(flat, best.states))


def test_a_part_with_a_zero_is_not_taken() -> None:
    graph = FactorGraph([2, 2, 2], [((0, 1), np.eye(2)), ((2,), [1.0, 2.0])])
    flat = compile([graph])
    assert with_better_parts(flat, np.array([0, 0, 0]), np.array([0, 1, 1])).tolist() == [0, 0, 1]
    assert with_better_parts(flat, np.array([0, 1, 1]), np.array([0, 0, 0])).tolist() == [0, 0, 1]


def test_equal_assignments_stay() -> None:
    flat = compile([ising_grid(2, 2)])
    states = np.array([0, 1, 1, 0])
    assert with_better_parts(flat, states, states).tolist() == states.tolist()


def test_members_are_combined_and_the_message_reports_it() -> None:
    graph = FactorGraph([2, 2], [((0,), [1.0, 3.0]), ((1,), [1.0, 5.0])])
    left, right, nothing = (
        Estimate(status=Status.ITERATION_LIMIT, assignment=None if a is None else np.array(a), message="It ran.")
        for a in ([1, 0], [0, 1], None)
    )
    best = [best_of(graph, left, [("bp", right)])]
    (answer,) = combined([graph], best, [[left], [right], [nothing]])
    assert answer.assignment is not None
    assert answer.assignment.tolist() == [1, 1]
    assert answer.stats["best_of"] == "parts"
    assert "combines parts" in answer.message
    assert combined([graph], [nothing], [[nothing]]) == [nothing]


def test_observed_variables_keep_their_states() -> None:
    graphs = [g.condition({0: 1, 5: 0}) for g in ising_grid(3, 3, coupling_std=3.0, count=3)]
    for result in solve(graphs, "MAP", "fe-net"):
        assert (result.assignment[0], result.assignment[5]) == (1, 0)
        assert result.log_score <= result.upper_bound + 1e-6


def test_it_is_never_worse_than_its_members() -> None:
    graphs = random_graph(14, 18, arity=(2, 4), zeros=0.15, count=8, seed=7)
    members = ["bp(damping=0.5)", "fe-nbp", "fe-net(untrained, iterations=100)"]
    own = solve(graphs, "MAP", "fe-net")
    for text in members:
        for mine, other in zip(own, solve(graphs, "MAP", text), strict=True):
            if other.status is not Status.ZERO_PROBABILITY:
                assert mine.log_score >= other.log_score - 1e-9
