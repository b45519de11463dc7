"""Grids are drawn as grids, networks in layers, and everything else with neighbours about 1 apart."""

from __future__ import annotations

import numpy as np
import pytest
from layered_networks import fan_network, network, random_network

import equifactor as ef
from equifactor import FactorGraph
from equifactor.graph.parents import children_of
from equifactor.show.graph_layout import places_of
from equifactor.show.layered_layout import BELOW, name_width

PAIR = [[2.0, 1.0], [1.0, 2.0]]


def of_pairs(num_vars: int, pairs: object) -> FactorGraph:
    return FactorGraph([2] * num_vars, [(pair, PAIR) for pair in pairs])  # type: ignore[attr-defined]


@pytest.mark.parametrize(("rows", "cols"), [(2, 2), (3, 7), (7, 3), (80, 80)])
def test_grids(rows: int, cols: int) -> None:
    places = places_of(ef.generators.ising_grid(rows, cols, seed=0))
    assert places.kind == "grid"
    assert places.grid == (rows, cols)
    expected = np.stack((np.arange(rows * cols) % cols, np.arange(rows * cols) // cols), axis=1)
    np.testing.assert_array_equal(places.variables, expected)


def test_a_torus_is_not_drawn_as_a_grid() -> None:
    assert places_of(ef.generators.ising_grid(4, 5, wrap=True)).kind == "force"


def test_a_grid_given_evidence() -> None:
    places = places_of(ef.generators.ising_grid(4, 5).condition({0: 1, 7: 0}))
    assert (places.kind, places.grid) == ("grid", (4, 5))


def test_a_grid_in_any_order() -> None:
    graph = ef.generators.ising_grid(6, 9, seed=0)
    other = ef.symmetry.relabel(graph, ef.symmetry.Relabelling.random(graph, seed=1))
    places = places_of(other)
    assert places.kind == "grid"
    assert sorted(places.grid or ()) == [6, 9]
    scopes = [other.structure.scope(a) for a in range(other.num_factors) if other.structure.arity[a] == 2]
    assert all(np.abs(np.diff(places.variables[scope], axis=0)).sum() == 1 for scope in scopes)


@pytest.mark.parametrize(
    "pairs",
    [
        [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4)],  # an edge is missing
        [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5), (0, 4)],  # one is too many
        [(i, (i + 1) % 6) for i in range(6)],  # a ring
    ],
)
def test_what_is_no_grid(pairs: list[tuple[int, int]]) -> None:
    assert places_of(of_pairs(6, pairs)).kind != "grid"


def test_chains_lie_in_rows() -> None:
    places = places_of(of_pairs(60, [(i, i + 1) for i in range(59)]))
    assert places.kind == "rows"
    np.testing.assert_array_equal(np.abs(np.diff(places.variables, axis=0)).sum(axis=1), 1.0)
    np.testing.assert_array_equal(places.factors[0], places.variables[:2].mean(axis=0))


@pytest.mark.parametrize(
    "graph",
    [
        FactorGraph([], []),
        FactorGraph([2], []),
        FactorGraph([2, 2], [([], 3.0)]),
        FactorGraph([2] * 7, [([i], [1.0, 2.0]) for i in range(7)]),
        of_pairs(7, [(0, i) for i in range(1, 7)]),
        of_pairs(9, [(0, 1), (1, 2), (2, 0), (4, 5), (5, 6), (6, 4)]),  # two triangles, and three by themselves
        FactorGraph([2] * 40, [(range(40), ef.Parity()), ([0, 1, 2], np.ones((2, 2, 2)))]),
    ],
    ids=repr,
)
def test_every_graph_has_places(graph: FactorGraph) -> None:
    places = places_of(graph)
    assert places.variables.shape == (graph.num_vars, 2)
    assert places.factors.shape == (graph.num_factors, 2)
    assert np.isfinite(places.variables).all()
    assert np.isfinite(places.factors).all()
    assert len(np.unique(places.variables.round(6), axis=0)) == graph.num_vars


def test_forces_are_repeatable_and_keep_neighbours_near() -> None:
    rng = np.random.default_rng(0)
    pairs = [(i, int(rng.integers(i))) for i in range(1, 200)] + [(0, 199), (5, 150)]
    graph = of_pairs(200, dict.fromkeys(tuple(sorted(p)) for p in pairs))
    places = places_of(graph)
    assert places.kind == "force"
    np.testing.assert_array_equal(places.variables, places_of(graph).variables)
    ends = places.variables[graph.structure.scope_vars.reshape(-1, 2)]
    lengths = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1)
    assert 0.5 < np.median(lengths) < 2.0
    apart = np.linalg.norm(places.variables[:, None] - places.variables[None], axis=2)
    assert np.median(apart) > 3 * np.median(lengths)


def test_dense_graphs_have_room() -> None:
    places = places_of(of_pairs(40, [(i, j) for i in range(40) for j in range(i)]))
    area = np.prod(np.ptp(places.variables, axis=0)) / 40
    assert 0.4 < area < 0.8  # a square of side 0.7 per node, and more until no two touch
    two = places_of(of_pairs(5, [(0, 1), (2, 3), (3, 4), (4, 2)]))
    assert np.ptp(two.variables, axis=0).max() < 8


def test_nodes_of_a_small_dense_graph_do_not_lie_on_each_other() -> None:
    at = places_of(ef.generators.random_graph(30, 200, arity=(2, 2), seed=1)).variables
    far = np.linalg.norm(at[:, None] - at[None], axis=2) + np.diag(np.full(30, np.inf))
    assert far.min() > 0.62  # A circle has the radius 0.3.


@pytest.mark.parametrize("graph", [fan_network(), *(random_network(25, seed) for seed in range(4))])
def test_layers_have_room_for_names_and_for_lines(graph: FactorGraph) -> None:
    children = children_of(graph)
    assert children is not None
    places = places_of(graph, children)
    assert places.kind == "layers"
    assert places.routes is not None
    s, at = graph.structure, places.variables
    half = np.array([max(name_width(s.variable_name(i)) / 2, 0.3) for i in range(s.num_vars)])
    boxes = np.stack((at[:, 0] - half, at[:, 1] - 0.3, at[:, 0] + half, at[:, 1] + BELOW), axis=1)
    for i, (left, top, right, bottom) in enumerate(boxes):
        others = np.delete(boxes, i, axis=0)
        across = (others[:, 0] < right) & (others[:, 2] > left)
        assert not np.any(across & (others[:, 1] < bottom) & (others[:, 3] > top)), s.variable_name(i)
    for e, route in enumerate(places.routes):
        assert np.all(np.diff(route[:, 1]) >= 0)
        for (x, y), (_, down) in zip(route[::2].tolist(), route[1::2].tolist(), strict=True):  # pieces within rows
            inside = (boxes[:, 0] < x) & (boxes[:, 2] > x) & (boxes[:, 1] < down) & (boxes[:, 3] > y)
            inside[s.scope_vars[e]] = False
            assert not inside.any()
    for a in np.flatnonzero(s.arity > 1).tolist():
        parents = [i for i in s.scope(a).tolist() if i != children[a]]
        assert at[parents, 1].max() < places.factors[a, 1] < at[children[a], 1]
    np.testing.assert_array_equal(at, places_of(graph, children).variables)


def test_wide_rows_are_split() -> None:
    graph = fan_network()
    width, height = np.ptp(places_of(graph, children_of(graph)).variables, axis=0)
    assert width < 1.8 * height  # 17 names of 18 letters side by side would be 55 wide


def test_long_and_narrow_networks_are_not_drawn_in_layers() -> None:
    names = {f"v{i}": " ".join(f"v{j}" for j in range(max(0, i - 2), i)) for i in range(60)}
    graph = network(names)
    places = places_of(graph, children_of(graph))
    assert places.kind == "force"
    assert np.ptp(places.variables, axis=0).max() < 60
