"""Graphs made ready for other packages."""

from __future__ import annotations

import numpy as np
import pytest

import equifactor as ef
from equifactor.interop.labels import state_names, variable_names
from equifactor.interop.plain_factors import linear, merged_scopes, plain_factors
from tests.factors.random_factors import random_mixture


def test_the_same_distribution_and_log_z() -> None:
    g = ef.FactorGraph([2, 2, 3, 2], [([0, 1], ef.Potts(0.5)), ([], [3.0]), ([2, 1], [[1, 2], [0, 4], [5, 6]])])
    seen = g.condition({2: 1})
    for graph in (g, seen):
        factors = plain_factors(graph, "it")
        assert {i for scope, _ in factors for i in scope} == {0, 1, 2, 3}
        assert all(scope for scope, _ in factors)
        again = ef.FactorGraph(g.card, factors, log=True)
        merged = ef.FactorGraph(g.card, merged_scopes(factors), log=True)
        wanted = ef.solve(graph, "MAR", "brute")
        for other in (ef.solve(again, "MAR", "brute"), ef.solve(merged, "MAR", "brute")):
            assert other.log_z == pytest.approx(wanted.log_z)
            np.testing.assert_allclose(other.marginals.values, wanted.marginals.values, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_factors_of_every_kind(seed: int) -> None:
    g = random_mixture(np.random.default_rng(seed))
    states = np.array(list(np.ndindex(*g.card.tolist())))
    for factors in (plain_factors(g, "it"), merged_scopes(plain_factors(g, "it"))):
        again = ef.FactorGraph(g.card, factors, log=True)
        np.testing.assert_allclose(again.log_score(states), g.log_score(states), rtol=0, atol=1e-12)


def test_a_number_alone_is_refused() -> None:
    with pytest.raises(ef.ModelError, match="this graph has no variables"):
        plain_factors(ef.FactorGraph([], [([], [2.0])]), "a Markov network")


def test_numbers_that_were_floats_come_back_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    p = np.concatenate(([0.0, 1.0, 0.1, 1e-300, 1e300], rng.random(5_000), rng.exponential(50.0, 5_000)))
    with np.errstate(divide="ignore"):
        logs = np.log(p)
        np.testing.assert_array_equal(np.log(linear(logs, "it")), logs)
    assert linear(np.log([[0.1, 0.05, 0.85]]), "it").tolist() == [[0.1, 0.05, 0.85]]


@pytest.mark.parametrize("value", [-720.0, 710.0])
def test_what_a_float_cannot_hold(value: float) -> None:
    with pytest.raises(ef.ModelError, match=r"outside the range of 64-bit numbers .* Scale the factors first"):
        linear(np.array([value]), "it")


def test_names() -> None:
    assert variable_names(["a", 1, (0, 1)]) == {"a": "a", 1: "1", (0, 1): "(0, 1)"}
    with pytest.raises(ef.ModelError, match="would both have the name '1'"):
        variable_names([1, "1"])
    assert state_names("v", [0, 1, 2]) == 3
    assert state_names("v", [np.int64(0), 1]) == 2
    assert state_names("v", [1, 0]) == ["1", "0"]
    assert state_names("v", [False, True]) == ["False", "True"]
    with pytest.raises(ef.ModelError, match="Two states of variable v would have the name '1'"):
        state_names("v", [1, "1"])
