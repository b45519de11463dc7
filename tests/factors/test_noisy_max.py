"""Noisy-max against its definition: the highest of independent levels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import equifactor as ef
from equifactor import NoisyMax
from tests.factors.random_factors import random_noisy_max


def defined(factor: NoisyMax, card: tuple[int, ...]) -> np.ndarray:
    """Return the table of a factor [*card] by enumerating the levels that each cause brings about."""
    levels = card[factor.place]
    causes = [n for n in range(len(card)) if n != factor.place]
    found = np.zeros(card)
    for states in itertools.product(*(range(card[n]) for n in causes)):
        rows = [np.asarray(factor.leak), *(np.asarray(t)[x] for t, x in zip(factor.causes, states, strict=True))]
        for brought in itertools.product(range(levels), repeat=len(rows)):
            at = list(states)
            at.insert(factor.place, max(brought))
            found[tuple(at)] += np.prod([row[k] for row, k in zip(rows, brought, strict=True)])
    return found


def cards(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(rng.integers(1, 4, int(rng.integers(2, 5))).tolist())


@pytest.mark.parametrize("seed", range(12))
def test_the_table_is_the_highest_of_independent_levels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    card = cards(rng)
    factor = random_noisy_max(rng, card)
    graph = ef.FactorGraph(list(card), [(list(range(len(card))), factor)])
    expected = defined(factor, card)
    np.testing.assert_allclose(np.exp(graph.log_table(0)), expected, atol=1e-12)
    lowered = ef.solvers.lower(graph).graph
    states = np.array(list(itertools.product(*map(range, card))))
    np.testing.assert_allclose(np.exp(graph.log_score(states)), expected.ravel(), atol=1e-12)
    assert ef.solve(lowered, "PR", "exact").log_z == pytest.approx(np.log(expected.sum()))


@pytest.mark.parametrize("seed", range(12))
def test_observed_variables_leave_a_noisy_max(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    card = cards(rng)
    factor = random_noisy_max(rng, card)
    expected = defined(factor, card)
    graph = ef.FactorGraph(list(card), [(list(range(len(card))), factor)])
    seen = {int(i): int(rng.integers(card[i])) for i in rng.permutation(len(card))[: rng.integers(1, len(card) + 1)]}
    left = expected[tuple(seen.get(i, slice(None)) for i in range(len(card)))]
    result = ef.solve(graph, "MAR", "exact", evidence=seen)
    if left.sum() == 0.0:
        assert result.status is ef.Status.ZERO_PROBABILITY
        return
    assert result.log_z == pytest.approx(np.log(left.sum()))
    free = [i for i in range(len(card)) if i not in seen]
    for axis, i in enumerate(free):
        others = tuple(k for k in range(len(free)) if k != axis)
        np.testing.assert_allclose(result.marginals[i], left.sum(axis=others) / left.sum(), atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_relabelled_factors_have_the_relabelled_table(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    card = cards(rng)
    graph = ef.FactorGraph(list(card), [(list(range(len(card))), random_noisy_max(rng, card))])
    moved = ef.symmetry.relabel(graph, ef.symmetry.Relabelling.random(graph, seed=seed))
    before, after = (ef.solve(g, "MAR", "exact") for g in (graph, moved))
    assert after.log_z == pytest.approx(before.log_z, abs=1e-12)
    assert np.exp(moved.log_table(0)).sum() == pytest.approx(np.exp(graph.log_table(0)).sum())


def many_causes(n: int) -> tuple[ef.FactorGraph, NoisyMax]:
    rng = np.random.default_rng(3)
    causes = rng.dirichlet(np.ones(3), size=(n, 2))
    causes[:, 0] = [1.0, 0.0, 0.0]
    factor = NoisyMax([0.99, 0.01, 0.0], causes.tolist())
    fields: list[Any] = [([1 + k], [0.9, 0.1]) for k in range(n)]
    return ef.FactorGraph([3] + [2] * n, [(range(1 + n), factor), *fields]), factor


def test_thirty_causes_are_summed_as_a_chain() -> None:
    graph, factor = many_causes(30)
    result = ef.solve(graph, "MAR", "exact")
    up_to = np.cumsum(np.asarray(factor.leak))
    for table in factor.causes:
        up_to *= np.cumsum(np.array([0.9, 0.1]) @ np.asarray(table))
    np.testing.assert_allclose(result.marginals[0], np.diff(up_to, prepend=0.0), atol=1e-12)
    seen = ef.solve(graph, "MAR", "exact", evidence={0: 2})
    assert seen.log_z == pytest.approx(np.log(up_to[2] - up_to[1]))
    assert ef.solve(graph, "MAR", "bp", evidence={1: 1}).status.solved


def test_a_noisy_or_is_a_noisy_max_of_two_levels() -> None:
    inhibitors = [0.3, 0.6]
    noisy_or = ef.FactorGraph([2] * 3, [(range(3), ef.NoisyOr(0.1, inhibitors))])
    causes = [[[1.0, 0.0], [q, 1.0 - q]] for q in inhibitors]
    noisy_max = ef.FactorGraph([2] * 3, [(range(3), NoisyMax([0.9, 0.1], causes))])
    np.testing.assert_allclose(np.exp(noisy_max.log_table(0)), np.exp(noisy_or.log_table(0)), atol=1e-15)


def test_it_is_a_distribution_of_a_network() -> None:
    flu = [[1.0, 0.0, 0.0], [0.3, 0.5, 0.2]]
    network = ef.BayesianNetwork(
        {"flu": [0.9, 0.1], "fever": (["flu"], NoisyMax([0.9, 0.1, 0.0], [flu]))},
        states={"fever": ["no", "mild", "high"], "flu": ["no", "yes"]},
    )
    assert network.parents("fever") == ("flu",)
    np.testing.assert_allclose(network.cpt("fever").values[1], [0.27, 0.53, 0.2])


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (NoisyMax([0.5, 0.4], [[[1, 0], [0, 1]]]), "leak"),
        (NoisyMax([0.5, 0.5], []), "1 tables of causes"),
        (NoisyMax([0.5, 0.5], [[[1, 0]]]), "shape"),
        (NoisyMax([0.5, 0.5, 0.0], [[[1, 0], [0, 1]]]), "2 probabilities"),
        (NoisyMax([0.5, 0.5], [[[1, 0], [0.5, 0.4]]]), "sum to 1"),
        (NoisyMax([0.5, 0.5], [[[1, 0], [0, 1]]], place=5), "place 5"),
        (NoisyMax([0.5, 0.5], [[[1, 0], [0, 1]]] * 2, level=3), "from 0 to 1"),
    ],
)
def test_a_factor_that_is_not_a_noisy_max_is_refused(factor: NoisyMax, message: str) -> None:
    with pytest.raises(ef.ModelError, match=message):
        ef.FactorGraph([2, 2], [([0, 1], factor)])
