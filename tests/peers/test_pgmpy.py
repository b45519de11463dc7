"""Exact marginals, ln Z and MAP against pgmpy."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import equifactor as ef

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of the imports of pgmpy
    pytest.importorskip("pgmpy")
    from pgmpy.factors.discrete import DiscreteFactor
    from pgmpy.inference import VariableElimination
    from pgmpy.models import DiscreteMarkovNetwork
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]


def as_network(graph: ef.FactorGraph) -> Any:
    """Return the graph in pgmpy. Every variable gets a factor, because pgmpy refuses variables without a factor."""
    network = DiscreteMarkovNetwork()
    network.add_nodes_from([f"v{i}" for i in range(graph.num_vars)])
    ones = [((i,), np.ones(card)) for i, card in enumerate(graph.card.tolist())]
    for scope, table in [*ones, *graph.linear_factors()]:
        names = [f"v{i}" for i in scope]
        network.add_edges_from([(a, b) for n, a in enumerate(names) for b in names[n + 1 :]])
        network.add_factors(DiscreteFactor(names, table.shape, table))
    return network


@pytest.mark.parametrize("solver", ["brute", "exact"])
def test_marginals_and_log_z_agree(model: ef.FactorGraph, solver: str) -> None:
    network = as_network(model)
    engine = VariableElimination(network)
    result = ef.solve(model, "MAR", solver)
    assert result.marginals is not None
    for i in range(0, model.num_vars, 3):
        theirs = engine.query([f"v{i}"], show_progress=False).values
        np.testing.assert_allclose(result.marginals[i], theirs / theirs.sum(), rtol=0, atol=1e-9)
    assert result.log_z == pytest.approx(math.log(network.get_partition_function()), abs=1e-9)


@pytest.mark.parametrize("solver", ["brute", "exact"])
def test_best_score_agrees(model: ef.FactorGraph, solver: str) -> None:
    states = VariableElimination(as_network(model)).map_query(
        [f"v{i}" for i in range(model.num_vars)], show_progress=False
    )
    theirs = model.log_score(np.array([int(states[f"v{i}"]) for i in range(model.num_vars)]))
    assert ef.solve(model, "MAP", solver).log_score == pytest.approx(theirs, abs=1e-9)
