"""Reweighted max-product: better than max-product on dense models, and independent of the order of the model."""

from __future__ import annotations

import itertools

import numpy as np

from equifactor import FactorGraph, Task, solve, symmetry
from equifactor.base.clock import Clock
from equifactor.base.status import Status
from equifactor.generators import ising_grid
from equifactor.solvers.learned import reweighted_max
from equifactor.solvers.learned.reweighted_max import ReweightedMax
from equifactor.solving.solver import SolveContext


def matching(seed: int, n: int = 8, card: int = 5) -> FactorGraph:
    """Return a dense model with some zeros."""
    rng = np.random.default_rng(seed)
    factors = [([i], np.exp(rng.standard_normal(card))) for i in range(n)]
    for i, j in itertools.combinations(range(n), 2):
        table = np.exp(2.0 * rng.standard_normal((card, card)))
        table[rng.random((card, card)) < 0.1] = 0.0
        factors.append(([i, j], table))
    return FactorGraph([card] * n, factors)


GRAPHS = [matching(seed) for seed in (3, 6, 12)]  # Max-product fails on all of them.


def scores(context: SolveContext | None = None) -> list[float]:
    found = ReweightedMax().run(GRAPHS, Task.MAP, context or SolveContext(clock=Clock()))
    return [g.log_score(e.assignment) for g, e in zip(GRAPHS, found, strict=True) if e.assignment is not None]


def test_better_than_max_product() -> None:
    best = [solve(g, "MAP", "exact").log_score for g in GRAPHS]
    plain = [solve(g, "MAP", "bp(damping=0.5)") for g in GRAPHS]
    np.testing.assert_allclose(scores(), best)
    assert all(b > g.log_score(r.assignment) + 1.0 for b, g, r in zip(best, GRAPHS, plain, strict=True))


def test_the_answer_follows_relabelling() -> None:
    graph = GRAPHS[1]
    other = symmetry.Relabelling.random(graph, seed=4)
    graphs = graph, symmetry.relabel(graph, other)
    one, two = (ReweightedMax().run([g], Task.MAP, SolveContext(clock=Clock()))[0] for g in graphs)
    np.testing.assert_array_equal(other.assignment(one.assignment), two.assignment)


def test_the_network_takes_its_assignment() -> None:
    for graph, score in zip(GRAPHS[:2], scores(), strict=False):
        assert solve(graph, "MAP", "fe-net").log_score >= score - 1e-9


def test_large_batches_have_no_answer(monkeypatch) -> None:
    monkeypatch.setattr(reweighted_max, "_MOST_SECONDS", 1e-6)
    found = ReweightedMax().run([ising_grid(3, 3)], Task.MAP, SolveContext(clock=Clock()))
    assert [e.status for e in found] == [Status.TOO_LARGE]


def test_it_ends_with_the_clock() -> None:
    found = ReweightedMax().run(GRAPHS, Task.MAP, SolveContext(clock=Clock(0.0)))
    assert all(e.assignment is None for e in found)
