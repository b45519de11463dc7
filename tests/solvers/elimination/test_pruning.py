"""Pruning for ln Z against enumeration, and what it leaves."""

import numpy as np
import pytest

import equifactor as ef
from equifactor import FactorGraph
from equifactor.solvers.elimination import exact
from equifactor.solvers.elimination.pruning import pruned


def log_z(graph: FactorGraph) -> float | None:
    return ef.solve(graph, "PR", "brute").log_z


def random_table(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    table = rng.random(shape) * (rng.random(shape) < 0.8) + 0.01 * (rng.random() < 0.5)
    return table / np.maximum(table.sum(axis=-1, keepdims=True), 1e-300)  # a conditional table where it is not zero


def test_ln_z_is_that_of_the_whole_graph() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        card = rng.integers(1, 4, 8)
        scopes = [rng.permutation(8)[: rng.integers(1, 4)].tolist() for _ in range(7)]
        graph = FactorGraph(card, [(scope, random_table(rng, tuple(card[scope]))) for scope in scopes])
        smaller = pruned(graph)
        assert smaller.graph.num_vars < graph.num_vars
        want, found = log_z(graph), log_z(smaller.graph)
        assert found == want if want is None else found == pytest.approx(want, abs=1e-12)


def test_variables_without_observed_descendants_leave_no_trace() -> None:
    graph = ef.generators.random_network(30, parents=(0, 3), observed=0.0, seed=2)
    smaller = pruned(graph).graph
    assert smaller.num_vars == 1
    assert log_z(smaller) == pytest.approx(0.0, abs=1e-12)
    loops = ef.generators.ising_grid(4, 4, seed=1)
    assert pruned(loops).graph.num_vars == 16


def test_search_sum_searches_the_smaller_graph() -> None:
    graph = ef.generators.random_network(40, parents=(2, 4), observed=0.0, seed=3).condition({20: 0})
    found, whole = ef.solve(graph, "PR", "search-sum"), ef.solve(graph, "MAR", "search-sum")
    assert found.log_z == pytest.approx(whole.log_z, abs=1e-10)
    assert found.stats["variables"] < whole.stats["variables"]


def test_exact_plans_the_smaller_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ef.generators.random_network(40, parents=(2, 4), observed=0.0, seed=3).condition({20: 0})
    want = ef.solve(graph, "PR", "exact")
    monkeypatch.setattr(exact, "_LONG", 0.0)
    monkeypatch.setattr(exact, "_PRUNING_SHARE", 0.0)
    found = ef.solve(graph, "PR", "exact")
    assert found.log_z == pytest.approx(want.log_z, abs=1e-12)
    assert found.stats["width"] < want.stats["width"]
    # Without a child the observed parents leave their tables, which no state satisfies.
    impossible = FactorGraph(
        [2, 2, 2], [([0, 1], [[0, 1], [1, 0]]), ([1, 2], [[0, 1], [1, 0]]), ([0, 2], [[0, 1], [1, 0]])]
    )
    assert ef.solve(impossible, "PR", "exact").status is ef.Status.ZERO_PROBABILITY
