"""Families of parents and children from scopes alone, and the reasons why a graph has no families."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import FactorGraph, ModelError, NoisyOr
from equifactor.graph.parents import children_of, families_of, find_families


def test_scopes_without_a_cycle_leave_no_choice() -> None:
    flat = [[1.0] * 2] * 2
    graph = FactorGraph([2] * 4, [([1, 0], flat), ([2, 1], flat), ([3, 2], flat), ([0], [1, 1])])
    families = find_families(graph)
    assert families is not None
    assert families.factor_of_child.tolist() == [3, 0, 1, 2]
    assert families.slot.tolist() == [0, 0, 0, 0]
    assert families.order.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (FactorGraph([2, 2], [([0], [1, 1])]), "The graph has 1 factors for 2 variables."),
        (FactorGraph([2, 2], [([0], [1, 1])] * 2), "All variables of factor 1 have another factor already."),
        (FactorGraph([2, 2], [([0, 1], [1] * 4)] * 2), "The scopes have a directed cycle at variable 0"),
    ],
)
def test_reasons(graph: FactorGraph, words: str) -> None:
    assert find_families(graph) is None
    assert children_of(graph) is None
    with pytest.raises(ModelError, match=f"^it wants a network, .* {words}.* Take another.$"):
        families_of(graph, "it wants a network", "Take another.")


def test_children_need_conditional_distributions() -> None:
    lawn = [([0], [0.5, 0.5]), ([0, 1], [[0.9, 0.1], [0.2, 0.8]])]
    assert children_of(FactorGraph([2, 2], lawn)) == [0, 1]
    assert children_of(FactorGraph([2, 2], lawn).condition({0: 1})) is None
    assert children_of(FactorGraph([2, 2], [lawn[0], ([0, 1], np.ones((2, 2)))])) is None
    noisy = NoisyOr(0.1, [0.5])
    assert children_of(FactorGraph([2, 2], [([1], [0.5, 0.5]), ([0, 1], noisy)])) == [1, 0]
    assert children_of(FactorGraph([2, 2], [([0], [0.5, 0.5]), ([0, 1], noisy)])) is None
