from __future__ import annotations

import numpy as np
import pytest

from equifactor import FactorGraph
from equifactor.generators import random_graph
from equifactor.graph.forced import fix_forced


def test_nothing_forced_is_the_same_object() -> None:
    graph = random_graph(6, 8, card=(2, 3), seed=1)
    assert fix_forced(graph) is graph


def test_single_states_and_unary_zeros_are_observed() -> None:
    graph = FactorGraph([1, 3, 2], [([1], [0, 2, 0]), ([1, 2], [[1, 2], [3, 4], [5, 6]])])
    assert fix_forced(graph).evidence == {0: 0, 1: 1}


def test_unit_propagation_runs_through_pairs() -> None:
    equal = [[1, 0], [0, 1]]
    chain = FactorGraph([2] * 5, [([0], [0, 1]), *(([i, i + 1], equal) for i in range(4))])
    assert fix_forced(chain).evidence == dict.fromkeys(range(5), 1)


def test_a_contradiction_is_none() -> None:
    assert fix_forced(FactorGraph([2], [([0], [1, 0]), ([0], [0, 1])])) is None
    differ = [[0, 1], [1, 0]]
    loop = FactorGraph([2, 2], [([0], [1, 0]), ([1], [1, 0]), ([0, 1], differ)])
    fixed = fix_forced(loop)
    assert fixed is None or np.isneginf(fixed.log_phi).any()


@pytest.mark.parametrize("seed", range(20))
def test_scores_are_kept(seed: int) -> None:
    graph = random_graph(6, 8, card=(1, 3), arity=(1, 3), zeros=0.4, seed=seed)
    fixed = fix_forced(graph)
    assert fixed is not None  # one assignment is always possible
    x = np.stack([np.random.default_rng(seed).integers(0, d, 200) for d in graph.card], axis=1)
    np.testing.assert_allclose(fixed.log_score(x), graph.log_score(x))
