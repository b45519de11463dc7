from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equifactor.generators import ising_grid, random_graph, random_tree
from equifactor.graph import FactorGraph, Structure
from equifactor.graph.components import connected_components, count_components


def slow_components(graph: FactorGraph, observed: np.ndarray | None) -> list[int]:
    """Return components by depth-first search, numbered by their first variable."""
    seen = [-1] * graph.num_vars
    blocked = set() if observed is None else set(np.flatnonzero(observed >= 0).tolist())
    scopes = [set(graph.structure.scope(a).tolist()) - blocked for a in range(graph.num_factors)]
    label = 0
    for first in range(graph.num_vars):
        if seen[first] >= 0 or first in blocked:
            continue
        stack = [first]
        while stack:
            i = stack.pop()
            if seen[i] < 0:
                seen[i] = label
                stack += [j for scope in scopes if i in scope for j in scope]
        label += 1
    return seen


@given(seed=st.integers(0, 10_000), factors=st.integers(0, 14), evidence=st.booleans())
def test_equals_depth_first_search(seed: int, factors: int, evidence: bool) -> None:
    graph = random_graph(12, factors, arity=(0, 3), seed=seed)
    rng = np.random.default_rng(seed)
    observed = np.where(rng.random(12) < 0.3, 0, -1) if evidence else None
    labels = connected_components(graph.structure, observed)
    assert labels.tolist() == slow_components(graph, observed)
    assert count_components(graph.structure, observed) == labels.max(initial=-1) + 1


def test_evidence_separates_before_and_after_slicing() -> None:
    chain = FactorGraph([2] * 3, [([0, 1], np.ones((2, 2))), ([1, 2], np.ones((2, 2)))])
    observed = chain.condition({1: 0})
    assert connected_components(chain.structure).tolist() == [0, 0, 0]
    assert connected_components(chain.structure, observed.observed).tolist() == [0, -1, 1]
    assert connected_components(observed.structure, observed.observed).tolist() == [0, -1, 1]


def test_nothing_to_connect() -> None:
    assert count_components(FactorGraph([]).structure) == 0
    assert count_components(FactorGraph([2, 2]).structure) == 2
    everything = ising_grid(2, 2).condition(dict.fromkeys(range(4), 0))
    assert count_components(everything.structure, everything.observed) == 0


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_long_path(shuffled: bool) -> None:
    n = 50_000
    path = np.random.default_rng(0).permutation(n) if shuffled else np.arange(n)
    structure = Structure.build(np.full(n, 2), 2 * np.arange(n), np.stack((path[:-1], path[1:]), 1).ravel())
    assert count_components(structure) == 1


def test_large_trees_are_connected() -> None:
    assert count_components(random_tree(20_000, seed=1).structure) == 1
