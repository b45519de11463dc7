from __future__ import annotations

import itertools

import numpy as np
import pytest

from equifactor.graph import FactorGraph
from equifactor.testing import assert_same_graph, contract_graphs


def test_contract_graphs_are_small_possible_and_always_the_same() -> None:
    again = contract_graphs()
    for name, graph in contract_graphs().items():
        assert_same_graph(graph, again[name])
        assert graph.name == name
        assert graph.num_joint_states <= 2**14
        x = np.array(list(itertools.product(*map(range, graph.card.tolist()))))
        assert np.isfinite(graph.log_score(x)).any()


def test_contract_graphs_cover_the_corners() -> None:
    graphs = contract_graphs()
    assert graphs["arity 0"].structure.arity.min() == 0
    assert graphs["arity 5"].structure.arity.max() == 5
    assert len(graphs["full evidence"].free_vars) == 0
    assert graphs["one-state variables"].card.min() == 1
    assert abs(graphs["large logs"].log_phi).min() > 400
    assert np.isneginf(graphs["hard zeros"].log_phi).any()


def test_assert_same_graph_sees_every_difference() -> None:
    g = FactorGraph({"a": 2, "b": ["x", "y"]}, [(["a", "b"], [[1.0, 2.0], [0.0, 4.0]])])
    assert_same_graph(g, g.with_potentials(np.exp(g.log_phi) * (1 + 1e-13)), 1e-9)
    others = [
        g.with_potentials([1.0, 2.0, 0.0, 4.1]),
        g.with_potentials([1.0, 2.0, 1e-300, 4.0]),
        g.condition({"a": 0}),
        g.with_factor([], 1.0),
        FactorGraph([2, 2], [([0, 1], [[1.0, 2.0], [0.0, 4.0]])]),
        FactorGraph({"a": 2, "b": 2}, [(["a", "b"], [[1.0, 2.0], [0.0, 4.0]])]),
        FactorGraph({"a": 2, "b": ["x", "y"]}, [(["b", "a"], [[1.0, 2.0], [0.0, 4.0]])]),
    ]
    for other in others:
        with pytest.raises(AssertionError):
            assert_same_graph(g, other, 1e-9)
