from __future__ import annotations

import numpy as np
import pytest

import equifactor as ef
from equifactor import FactorGraph, Status
from equifactor.base.clock import Clock
from equifactor.generators import ising_grid
from equifactor.graph import compile
from equifactor.solvers.auto import native_search
from equifactor.solvers.auto.map_portfolio import MapPortfolio
from equifactor.solvers.elimination.shrink import shrink
from equifactor.solving.solver import SolveContext


def test_a_bound_of_minus_infinity_ends_it() -> None:
    """Each table supports all states, but around a triangle two variables must be equal and must differ."""
    equal, differ = [[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    graph = FactorGraph([3, 3, 3], [([0, 1], equal), ([1, 2], equal), ([0, 2], differ)])
    shrunk = shrink(graph, 1)  # nothing is eliminated
    assert shrunk is not None
    assert shrunk.graph.num_vars == 3
    assert MapPortfolio(shrunk, SolveContext(clock=Clock()), 1e-7).solve(10.0).status is Status.ZERO_PROBABILITY


def portfolio(graph: FactorGraph) -> MapPortfolio:
    shrunk = shrink(graph, 1)
    assert shrunk is not None
    return MapPortfolio(shrunk, SolveContext(clock=Clock()), 1e-7)


def test_search_that_gets_better_has_the_largest_share() -> None:
    state = portfolio(ising_grid(5, 5, seed=0))
    state.spent["search"], state.risen = 1.0, 0.9
    weight = state._weights(1.0)
    assert weight["search"] > weight["messages"] == weight["dual"]


def test_messages_have_the_largest_share_if_search_is_stuck() -> None:
    state = portfolio(ising_grid(5, 5, seed=0))
    state.spent["search"], state.risen = 1.0, 0.0
    weight = state._weights(1.0)
    assert weight["messages"] > weight["search"] == weight["dual"]


def test_messages_look_at_the_clock_after_a_few_iterations() -> None:
    """A part of 20 iterations took 5 ms on models of object detection, where answers with 10 ms were late."""
    state = portfolio(ising_grid(5, 5, seed=0))
    assert state.messages is not None
    state.messages._clock = Clock(0.0)
    state.messages.step()
    assert 0 < state.messages.iterations < 20


def test_search_has_an_equal_share_after_many_phases() -> None:
    state = portfolio(ising_grid(5, 5, seed=0))
    state.spent["search"], state.risen, state.search.phases = 1.0, 1.0, 100_000
    weight = state._weights(1.0)
    assert weight["search"] == weight["dual"]


def test_bounds_with_cycles_have_a_larger_share_than_search_after_many_phases() -> None:
    state = portfolio(ising_grid(5, 5, seed=0))
    state._next_dual()
    state.spent["search"], state.risen, state.search.phases = 1.0, 1.0, 100_000
    weight = state._weights(1.0)
    assert weight["search"] < 0.5 * weight["dual"]


def test_messages_end_and_the_best_assignment_is_proven() -> None:
    graph = ising_grid(4, 4, seed=1)
    state = portfolio(graph)
    while state.messages is not None:
        state._pass_messages()
    estimate = state.solve(10.0)
    assert estimate.status is Status.OPTIMAL
    assert estimate.assignment is not None
    best = ef.solve(graph, "MAP", "brute").log_score
    np.testing.assert_allclose(graph.log_score(estimate.assignment), best)


def test_a_part_of_max_product_ends_with_the_clock(driven_time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_search, "_BP_STATE", 1.0)  # as on a graph of very many edges
    messages = native_search.MaxProduct(compile(ising_grid(2, 2, seed=0)), SolveContext(clock=Clock(3.5)))

    def sweep(count: int) -> np.ndarray:
        driven_time.advance(1.0 * count)
        return np.ones(1)

    monkeypatch.setattr(messages._engine, "sweep", sweep)
    messages.step()
    assert messages.iterations == 4
