from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equifactor.base.errors import OptionError
from equifactor.generators import random_tree
from equifactor.graph.components import count_components
from equifactor.testing import assert_same_graph


@given(num_vars=st.integers(1, 30), seed=st.integers(0, 1000))
def test_is_a_tree(num_vars: int, seed: int) -> None:
    graph = random_tree(num_vars, card=(2, 4), seed=seed)
    assert graph.structure.arity.tolist() == [1] * num_vars + [2] * (num_vars - 1)
    assert count_components(graph.structure) == 1  # V - 1 edges and connected: no cycle
    assert graph.card.min() >= 2
    assert graph.card.max() <= 4


def test_zeros_leave_something_possible() -> None:
    for graph in random_tree(6, card=(2, 3), zeros=1.0, count=20, seed=2):
        x = np.array(list(np.ndindex(*graph.card)))
        assert np.isfinite(graph.log_score(x)).sum() == 1  # only the planted assignment


def test_strength_and_share_of_zeros() -> None:
    graph = random_tree(3000, card=4, strength=2.0, zeros=0.3, seed=1)
    finite = graph.log_phi[np.isfinite(graph.log_phi)]
    assert finite.std() == pytest.approx(2.0, rel=0.03)
    pair_entries = graph.log_phi[3000 * 4 :]
    assert np.isneginf(pair_entries).mean() == pytest.approx(0.3 * 15 / 16, rel=0.05)
    assert np.isfinite(random_tree(50, seed=1).log_phi).all()


def test_one_many_and_prefix() -> None:
    many = random_tree(8, card=(2, 5), zeros=0.2, count=4, seed=7)
    assert_same_graph(random_tree(8, card=(2, 5), zeros=0.2, seed=7), many[0])
    for g, h in zip(many, random_tree(8, card=(2, 5), zeros=0.2, count=2, seed=7), strict=False):
        assert_same_graph(g, h)
    assert not many[0].structure.same_as(many[1].structure)


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"num_vars": 0}, "num_vars must be a whole number of at least 1, found 0"),
        ({"card": 0}, "card must be a whole number of at least 1, found 0"),
        ({"card": (3, 2)}, "card must be a pair (low, high) with low <= high, found (3, 2)"),
        ({"card": (1, 2, 3)}, "card must be a whole number or a pair (low, high)"),
        ({"zeros": 1.5}, "zeros must be a number of at least 0 and at most 1, found 1.5"),
        ({"strength": -1}, "strength must be a number of at least 0, found -1"),
        ({"count": -3}, "count must be a whole number of at least 1, found -3"),
        ({"num_vars": 10**12}, "at most 2^30"),
    ],
)
def test_refuses(options: dict, fragment: str) -> None:
    with pytest.raises(OptionError) as error:
        random_tree(**{"num_vars": 4, **options})
    assert fragment in str(error.value)
