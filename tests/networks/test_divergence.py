"""Divergences of two models against enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import equifactor as ef
from equifactor.networks.divergence import divergence

CARD = (2, 3, 2, 3)


def network(rng: np.random.Generator, order: Any) -> ef.BayesianNetwork:
    """Return a random network whose parents come earlier in an order of the variables."""
    tables: dict[str, Any] = {}
    for k, i in enumerate(order):
        parents = [int(j) for j in order[:k] if rng.random() < 0.5]
        rows = rng.dirichlet(np.ones(CARD[i]), size=tuple(CARD[j] for j in parents))
        tables[f"v{i}"] = ([f"v{j}" for j in parents], rows) if parents else rows
    return ef.BayesianNetwork(tables)


def enumerated(graph: ef.FactorGraph) -> np.ndarray:
    """Return p(x) of all assignments, in one order for all graphs."""
    places = [int(str(name)[1:]) for name in graph.variable_names or ()]
    states = np.array(list(itertools.product(*map(range, CARD))))
    scores = np.exp(graph.log_score(states[:, places]))
    return scores / scores.sum()


@pytest.mark.parametrize("seed", range(6))
def test_divergences_equal_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = network(rng, range(4)), network(rng, rng.permutation(4))
    found = p.divergence(q)
    a, b = enumerated(p), enumerated(q)
    assert found.is_exact
    assert found.kl == pytest.approx(float((a * np.log(a / b)).sum()), abs=1e-12)
    assert found.hellinger == pytest.approx(float(np.sqrt(1.0 - np.sqrt(a * b).sum())), abs=1e-8)
    assert sum(found.by_variable.values()) == pytest.approx(found.kl)
    sampled = divergence(p, q, memory_limit=1e-9, seed=seed)
    assert not sampled.is_exact
    assert abs(sampled.kl - found.kl) < 5 * sampled.kl_error
    assert abs(sampled.hellinger - found.hellinger) < 5 * sampled.hellinger_error


@pytest.mark.parametrize("seed", range(6))
def test_errors_of_distant_models_are_honest(seed: int) -> None:
    """A mean over samples of p alone missed most of the overlap, by thousands of its errors."""
    rng = np.random.default_rng(seed)
    tables = []
    for _ in range(2):
        rows = [rng.dirichlet([0.15] * 3, size=(1, 3)[k % 2]) + 1e-9 for k in range(10)]
        rows = [own / own.sum(axis=1, keepdims=True) for own in rows]
        tables.append({f"v{k}": (f"v{k - 1}", own) if k % 2 else own[0] for k, own in enumerate(rows)})
    p, q = map(ef.BayesianNetwork, tables)
    exact, found = p.divergence(q), divergence(p, q, memory_limit=1e-9)
    assert abs(found.kl - exact.kl) < 5 * found.kl_error
    assert abs(found.hellinger - exact.hellinger) < 5 * found.hellinger_error


def test_sampled_divergences_of_close_models_have_an_error() -> None:
    """Equal scores of all samples had no error, or were divided by zero."""
    rare: dict[str, Any] = {"a": [1 - 1e-7, 1e-7], "b": ("a", [[0.5, 0.5], [0.9, 0.1]])}
    p, q = ef.BayesianNetwork(rare), ef.BayesianNetwork(rare | {"b": ("a", [[0.5, 0.5], [0.1, 0.9]])})
    exact, found = p.divergence(q), divergence(p, q, memory_limit=1e-12)
    assert not found.is_exact
    assert abs(found.kl - exact.kl) < found.kl_error < 1e-3
    assert exact.hellinger < found.hellinger_error < 0.01
    same = divergence(p, p, memory_limit=1e-12)
    assert (same.kl, same.hellinger, same.is_exact) == (0.0, 0.0, False)
    never = ef.BayesianNetwork(rare | {"b": ("a", [[0.5, 0.5], [0.0, 1.0]])})
    assert divergence(p, never, memory_limit=1e-12).kl_error == np.inf


def test_models_that_are_not_normalised_have_a_divergence() -> None:
    p = ef.FactorGraph({"a": 2, "b": 2}, [(["a", "b"], [[1.0, 2.0], [3.0, 4.0]])])
    q = ef.FactorGraph({"b": 2, "a": 2}, [(["a"], [2.0, 2.0]), (["a", "b"], [[4.0, 3.0], [2.0, 1.0]])])
    found = divergence(p, q)
    a, b = np.array([1, 2, 3, 4]) / 10, np.array([4, 3, 2, 1]) / 10
    assert found.kl == pytest.approx(float((a * np.log(a / b)).sum()))
    assert not found.by_variable
    with pytest.raises(ef.SolveError, match="memory_limit"):
        divergence(p, q, memory_limit=1e-12)


def test_states_are_matched_by_name_and_zeros_are_infinite() -> None:
    p = ef.BayesianNetwork({"rain": {"no": 0.8, "yes": 0.2}})
    q = ef.BayesianNetwork({"rain": {"yes": 0.2, "no": 0.8}})
    assert divergence(p, q).kl == 0.0
    never = ef.BayesianNetwork({"rain": {"yes": 0.0, "no": 1.0}})
    assert divergence(p, never).kl == np.inf
    assert divergence(never, p).kl == pytest.approx(-np.log(0.8))
    assert "rain" in str(divergence(p, never))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (ef.BayesianNetwork({"snow": [0.5, 0.5]}), "no variable 'snow'"),
        (ef.BayesianNetwork({"rain": {"a": 0.5, "b": 0.5}}), "They must be the same"),
        (ef.BayesianNetwork({"rain": [0.5, 0.5], "fog": [0.5, 0.5]}), "1 and 2 variables"),
        ("rain", "must be a FactorGraph"),
    ],
)
def test_models_that_do_not_match_are_refused(other: Any, message: str) -> None:
    with pytest.raises(ef.ModelError, match=message):
        divergence(ef.BayesianNetwork({"rain": {"no": 0.8, "yes": 0.2}}), other)
