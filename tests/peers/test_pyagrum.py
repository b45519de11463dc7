"""Exact marginals against pyAgrum. Models are built in code, because its UAI reader reads tables in a wrong order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import equifactor as ef

gum = pytest.importorskip("pyagrum")
# A warning turned into an exception inside its C++ bindings ends the process.
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]


def as_mrf(graph: ef.FactorGraph) -> Any:
    """Return the graph in pyAgrum. Tables with equal scopes are multiplied, as pyAgrum has one factor per scope."""
    mrf = gum.MarkovRandomField()
    for i, card in enumerate(graph.card.tolist()):
        mrf.add(gum.LabelizedVariable(f"v{i}", "", card))
    merged: dict[tuple[int, ...], np.ndarray] = {(i,): np.ones(card) for i, card in enumerate(graph.card.tolist())}
    for scope, table in graph.linear_factors():
        order = np.argsort(scope)
        key = tuple(scope[k] for k in order)
        merged[key] = merged.get(key, np.ones(())) * np.transpose(table, order)
    for scope, table in merged.items():
        names = [f"v{i}" for i in scope]
        mrf.addFactor(names)
        factor = mrf.factor(names)
        order = [scope.index(int(name[1:])) for name in factor.names]
        factor.fillWith(np.transpose(table, order).ravel(order="F").tolist())  # its first variable is fastest
    return mrf


def marginals(graph: ef.FactorGraph) -> list[list[float]]:
    engine = gum.ShaferShenoyMRFInference(as_mrf(graph))
    engine.makeInference()
    return [engine.posterior(f"v{i}").tolist() for i in range(graph.num_vars)]


@pytest.mark.parametrize("solver", ["brute", "exact", "auto"])
def test_marginals_agree(model: ef.FactorGraph, solver: str) -> None:
    result = ef.solve(model, "MAR", solver)
    assert result.marginals is not None
    for ours, theirs in zip(result.marginals, marginals(model), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


def test_bp_agrees_on_a_tree() -> None:
    from equifactor.generators import random_tree

    tree = random_tree(12, card=(2, 4), seed=7)
    result = ef.solve(tree, "MAR", "bp(tolerance=1e-12)")
    assert result.marginals is not None
    for ours, theirs in zip(result.marginals, marginals(tree), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
