"""The iterations that are shown are the iterations of the solver itself."""

from __future__ import annotations

import numpy as np
import pytest

import equifactor as ef
from equifactor import FactorGraph
from equifactor.generators import ising_grid
from equifactor.page.message_trace import find_period, trace
from equifactor.solvers import Clock


def watch(graph: FactorGraph, solver: str, iterations: int = 10_000):
    return trace(graph, solver, iterations=iterations, clock=Clock(600))


@pytest.fixture
def odd_ones() -> FactorGraph:
    """Return nine variables that all prefer to differ, so that belief propagation oscillates."""
    unary = [([i], [0.55, 0.45] if i % 2 else [0.4, 0.6]) for i in range(9)]
    return FactorGraph([2] * 9, [*unary, *(((i, j), [[1, 9], [9, 1]]) for i in range(9) for j in range(i))])


@pytest.mark.parametrize("solver", ["bp", "bp(damping=0.5)", "bp(schedule=residual)", "trw", "meanfield"])
def test_the_last_iteration_is_the_answer(solver: str, network: FactorGraph) -> None:
    for graph in (ising_grid(4, 4, seed=2), network.condition({0: "yes"})):
        found, answer = watch(graph, solver), ef.solve(graph, "MAR", solver)
        assert len(found.residuals) == len(found.beliefs) == len(found.moving) == answer.iterations
        assert found.status == answer.status
        np.testing.assert_allclose(found.beliefs[-1], answer.marginals.values, atol=1e-6)


def test_every_iteration_is_the_answer_after_so_many(odd_ones: FactorGraph) -> None:
    found = watch(odd_ones, "bp")
    for t in (1, 2, 7, 30):
        answer = ef.solve(odd_ones, "MAR", f"bp(iterations={t})")
        np.testing.assert_allclose(found.beliefs[t - 1], answer.marginals.values, atol=1e-6)


def test_a_learned_solver() -> None:
    pytest.importorskip("torch")
    graph = ising_grid(4, 4, seed=2)
    found, answer = watch(graph, "fe-net"), ef.solve(graph, "MAR", "fe-net(alone)")
    assert found.solver == "fe-net(alone=true)"
    assert len(found.beliefs) == answer.iterations
    np.testing.assert_allclose(found.beliefs[-1], answer.marginals.values, atol=1e-6)
    assert found.moving[0]


def test_circles_are_found_and_damping_ends_them(odd_ones: FactorGraph) -> None:
    found = watch(odd_ones, "bp")
    assert found.cycle is not None
    assert found.cycle[0] == 2
    assert found.status == "iteration-limit"
    assert watch(odd_ones, "bp(damping=0.9)").cycle is None


@pytest.mark.parametrize("period", [2, 3, 5])
def test_periods(period: int) -> None:
    t = np.arange(60)
    round_and_round = np.stack((0.5 + 0.3 * np.cos(2 * np.pi * t / period), np.full(60, 0.2)), axis=1)
    assert find_period(round_and_round) == (period, 0)
    start = np.concatenate((np.linspace(0, 1, 40).reshape(20, 2), round_and_round))
    found = find_period(start)
    assert found is not None
    assert found[0] == period
    assert 19 <= found[1] <= 21
    assert find_period(start[:22]) is None
    assert find_period(np.full((30, 2), 0.5)) is None
    assert find_period(np.stack([t / 60, 1 - t / 60], axis=1)) is None


def test_the_messages_that_move_most() -> None:
    graph = ising_grid(3, 3, seed=0)
    found = watch(graph, "bp")
    for rows in found.moving:
        assert len(rows) <= 5
        changes = [row["change"] for row in rows]
        assert changes == sorted(changes, reverse=True)
        assert all(row["variable"] in graph.structure.scope(row["factor"]) for row in rows)
    assert all(row["factor"] is None for rows in watch(graph, "meanfield").moving for row in rows)


def test_a_run_can_be_cut_short() -> None:
    found = watch(ising_grid(8, 8, seed=1), "bp", iterations=3)
    assert len(found.beliefs) == 3
    assert found.status == "iteration-limit"
    late = trace(ising_grid(4, 4), "bp", iterations=10, clock=Clock(0.0))
    assert late.status in ("time-limit", "iteration-limit")


def test_solvers_without_iterations() -> None:
    with pytest.raises(ef.OptionError, match=r"exact has no iterations to show. Choose from: bp"):
        watch(ising_grid(2, 2), "exact")
