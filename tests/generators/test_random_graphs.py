from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equifactor.base.errors import EquifactorError, OptionError
from equifactor.generators import random_graph
from equifactor.testing import assert_same_graph


@given(
    num_vars=st.integers(1, 12),
    num_factors=st.integers(0, 20),
    seed=st.integers(0, 1000),
    zeros=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_sizes_and_no_impossible_model(num_vars: int, num_factors: int, seed: int, zeros: float) -> None:
    high = min(3, num_vars)
    graph = random_graph(num_vars, num_factors, arity=(0, high), card=(1, 3), zeros=zeros, seed=seed)
    assert (graph.num_vars, graph.num_factors) == (num_vars, num_factors)
    assert graph.structure.arity.max(initial=0) <= high
    for a in range(num_factors):
        assert np.isfinite(graph.log_table(a)).any()
    if zeros == 1.0 and num_vars <= 6:
        x = np.array(list(np.ndindex(*graph.card)))
        assert np.isfinite(graph.log_score(x)).any()


def test_scopes_are_uniform_in_set_and_order() -> None:
    graph = random_graph(4, 24_000, arity=3, seed=1)
    scopes, counts = np.unique(graph.structure.scope_vars.reshape(-1, 3), axis=0, return_counts=True)
    assert len(scopes) == math.perm(4, 3)
    assert abs(counts / 1000 - 1).max() < 0.15  # 1000 expected of each, standard deviation 31


def test_arity_of_all_variables() -> None:
    graph = random_graph(5, 10, arity=5, seed=1)
    for a in range(10):
        assert sorted(graph.structure.scope(a).tolist()) == [0, 1, 2, 3, 4]


def test_one_many_and_prefix() -> None:
    many = random_graph(6, 9, zeros=0.2, count=4, seed=7)
    assert_same_graph(random_graph(6, 9, zeros=0.2, seed=7), many[0])
    for g, h in zip(many, random_graph(6, 9, zeros=0.2, count=2, seed=7), strict=False):
        assert_same_graph(g, h)
    assert not many[0].structure.same_as(many[1].structure)


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"num_vars": 0}, "num_vars must be a whole number of at least 1, found 0"),
        ({"num_factors": -1}, "num_factors must be a whole number of at least 0, found -1"),
        ({"arity": 9}, "arity must be at most 6, the number of variables; found 9"),
        ({"arity": -1}, "arity must be a whole number of at least 0, found -1"),
        ({"arity": (3, 1)}, "arity must be a pair (low, high) with low <= high"),
        ({"zeros": -0.1}, "zeros must be a number of at least 0 and at most 1"),
        ({"num_factors": 10**12}, "at most 2^30"),
        ({"num_vars": 60, "arity": 35}, "at most 2^30"),
    ],
)
def test_refuses(options: dict, fragment: str) -> None:
    with pytest.raises(OptionError) as error:
        random_graph(**{"num_vars": 6, "num_factors": 5, **options})
    assert fragment in str(error.value)


def test_refuses_tables_that_turn_out_too_large() -> None:
    with pytest.raises(EquifactorError, match=r"2\^"):
        random_graph(60, 500, arity=(1, 60), seed=1)
