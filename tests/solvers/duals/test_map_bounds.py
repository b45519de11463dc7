"""The bound of appendix C holds for any messages, and dual ascent only lowers it."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import ModelError
from equifactor.generators import ising_grid, random_graph, random_tree
from equifactor.graph import FactorGraph
from equifactor.solvers import compile
from equifactor.solvers.duals.map_bounds import map_upper_bound, tighten


def optima(graphs: list[FactorGraph]) -> np.ndarray:
    """Return the best log scores [G] by enumeration, for graphs of at most six binary variables."""
    best = []
    for graph in graphs:
        joint = np.array(np.unravel_index(np.arange(2**graph.num_vars), (2,) * graph.num_vars)).T
        best.append(graph.log_score(joint).max())
    return np.array(best)


@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_any_messages_bound_the_optimum_of_two_thousand_graphs(zeros: float) -> None:
    graphs = random_graph(5, 7, arity=(0, 3), zeros=zeros, count=1000, seed=1)
    truth = optima(graphs)
    flat = compile(graphs)
    rng = np.random.default_rng(0)
    for strength in (0.0, 1.0, 100.0):
        messages = strength * rng.normal(size=flat.num_edge_states)
        bound = map_upper_bound(flat, messages)
        assert np.all(bound >= truth - 1e-9)
        tighter_messages, tighter = tighten(flat, messages, passes=4)
        assert np.all(tighter >= truth - 1e-9)
        assert np.all(tighter <= bound + 1e-9 * np.abs(bound))
        np.testing.assert_allclose(map_upper_bound(flat, tighter_messages), tighter)


def test_dual_ascent_is_tight_on_trees() -> None:
    graphs = random_tree(6, card=2, zeros=0.2, count=200, seed=3)
    flat = compile(graphs)
    _, bound = tighten(flat, np.zeros(flat.num_edge_states), passes=40)
    np.testing.assert_allclose(bound, optima(graphs), atol=1e-9)


def test_more_passes_never_raise_the_bound() -> None:
    flat = compile(ising_grid(6, 6, seed=0))
    messages = np.random.default_rng(1).normal(size=flat.num_edge_states)
    bounds = [map_upper_bound(flat, messages)[0]]
    for _ in range(20):
        messages, bound = tighten(flat, messages, passes=1)
        bounds.append(bound[0])
    assert np.all(np.diff(bounds) <= 1e-9)
    assert bounds[-1] < bounds[0] - 1.0


def test_torch_and_numpy_agree() -> None:
    torch = pytest.importorskip("torch")

    graphs = random_graph(6, 9, arity=(1, 3), card=(2, 4), zeros=0.2, count=20, seed=5)
    flat = compile(graphs)
    messages = np.random.default_rng(2).normal(size=flat.num_edge_states)
    by_torch = map_upper_bound(flat.to(), torch.tensor(messages))
    np.testing.assert_allclose(map_upper_bound(flat, messages), by_torch.numpy(), rtol=1e-12)


def test_a_graph_in_place_of_the_compiled_one() -> None:
    graph = FactorGraph([2, 2], [([0], [1.0, 2.0]), ([0, 1], [[1.0, 3.0], [2.0, 1.0]])])
    assert map_upper_bound(graph, np.zeros(6))[0] == pytest.approx(np.log(2.0) + np.log(3.0))


def test_a_contradiction_is_found() -> None:
    equal, differ = np.eye(2), 1 - np.eye(2)
    graph = FactorGraph([2, 2], [([0], [0.0, 1.0]), ([1], [0.0, 1.0]), ([0, 1], differ), ([0, 1], equal)])
    assert np.isneginf(tighten(graph, np.zeros(compile(graph).num_edge_states), passes=2)[1][0])


@pytest.mark.parametrize("bad", [np.zeros(5), np.full(6, np.nan), np.full(6, np.inf)])
def test_invalid_messages_are_refused(bad: np.ndarray) -> None:
    graph = FactorGraph([2, 2], [([0], [1.0, 2.0]), ([0, 1], [[1.0, 3.0], [2.0, 1.0]])])
    with pytest.raises(ModelError, match="messages"):
        map_upper_bound(graph, bad)
