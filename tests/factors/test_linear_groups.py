"""Noisy-ors, counts and sparse tables in linear numbers: the same messages as their tables, in any range."""

from __future__ import annotations

import numpy as np
import pytest
from random_factors import as_tables, random_factor

from equifactor import FactorGraph, NoisyOr, solve

KINDS = ("noisy_or", "count", "exactly", "sparse", "or")


def graph_of(kind: str, spread: float, seed: int) -> FactorGraph:
    """Return three factors of a kind that overlap, and tables that send messages of about this log range."""
    rng = np.random.default_rng(seed)
    card = [2] * 8 if kind != "sparse" else rng.integers(2, 4, 8).tolist()
    factors = []
    for scope in ([0, 1, 2, 3], [5, 2, 4, 3], [7, 5, 0, 6]):  # Equal scopes would become one table.
        factor = NoisyOr(0.0, [0.0] * 3, rng.integers(0, 2, 4).astype(bool).tolist(), place=int(rng.integers(4)))
        shape = tuple(card[i] for i in scope)
        factors.append((scope, factor if kind == "or" else random_factor(rng, kind, shape)))
    fields = [([i], spread * rng.normal(size=d)) for i, d in enumerate(card)]
    return FactorGraph(card, [*factors, *fields], log=True)


@pytest.mark.parametrize("task", ["MAR", "MAP"])
@pytest.mark.parametrize("spread", [1.0, 30.0, 800.0])
@pytest.mark.parametrize("kind", KINDS)
def test_messages_are_those_of_tables(kind: str, spread: float, task: str) -> None:
    for seed in range(8):
        graph = graph_of(kind, spread, seed)
        got, want = (solve(g, task, "bp(iterations=6, damping=0.3)") for g in (graph, as_tables(graph)))
        assert got.status is want.status
        if task == "MAR" and hasattr(want, "marginals"):
            np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=1e-8)
            assert got.log_z == pytest.approx(want.log_z, rel=1e-8, abs=1e-8)
        elif want.upper_bound is not None:
            assert got.upper_bound == pytest.approx(want.upper_bound, rel=1e-8, abs=1e-8)


def test_long_factors() -> None:
    """The product of a thousand numbers underflows: logs take over, and the answer is the same."""
    rng = np.random.default_rng(0)
    fields = [([i], [0.0, -3.0 * rng.random()]) for i in range(2000)]
    graph = FactorGraph([2] * 2000, [(range(2000), NoisyOr(0.0, [0.5] * 1999)), *fields], log=True)
    got, want = solve(graph, "PR", "bp"), solve(graph, "PR", "exact")
    assert got.log_z == pytest.approx(want.log_z, rel=1e-9)
