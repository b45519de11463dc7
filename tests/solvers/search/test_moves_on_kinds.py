"""Searches over single-variable moves on factors of every kind: scores, optima, long factors, formulas."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from equifactor import Clause, FactorGraph, Parity, Potts, SparseTable, Status, TruncatedLinear, solve
from equifactor.base.clock import Clock
from equifactor.factors.move_model import MoveModel
from equifactor.generators import random_ksat
from equifactor.graph import compile
from equifactor.solvers.search.focused_walk import FocusedWalk
from equifactor.solvers.search.local_search import improve
from equifactor.solvers.search.tree_regions import RegionPlan
from equifactor.solvers.search.walker import Walker

sys.path.append(str(Path(__file__).parents[2] / "factors"))
from random_factors import random_mixture, scores_from_tables

pytestmark = pytest.mark.slow  # kernels on kinds take long to compile


def mixtures(seeds: range) -> list[FactorGraph]:
    graphs = [random_mixture(np.random.default_rng(seed)) for seed in seeds]
    return [g for g in graphs if g.structure.kinds is not None]


def check_score(graph: FactorGraph, walker: Walker) -> None:
    true = float(graph.log_score(walker.x))
    assert walker.possible == math.isfinite(true)
    if walker.possible:
        assert walker.score == pytest.approx(true, rel=1e-9, abs=1e-7)


def violated(formula: FactorGraph, x: np.ndarray) -> int:
    rows = formula.structure.rows(formula.log_phi)
    return int((rows.sum_of_edges((x[rows.scope_vars] == rows.words).astype(int)) == 0).sum())


def test_incremental_scores_are_those_of_the_graph() -> None:
    for seed, graph in enumerate(mixtures(range(80))):
        rng = np.random.default_rng(seed)
        model = MoveModel(compile(graph))
        walker, mate = Walker(model, rng), Walker(model, rng)
        walker.start(model.random_assignment(rng))
        check_score(graph, walker)
        walker.tabu(40, 1, 3)
        check_score(graph, walker)
        for heat in (0.0, 1.0):
            before = walker.score
            walker.anneal(RegionPlan(2, 1, len(walker.x), 4), heat)
            check_score(graph, walker)
            assert walker.score >= before - 1e-6
        mate.start(model.random_assignment(rng))
        before = walker.score
        walker.recombine(mate.x)
        check_score(graph, walker)
        assert walker.score >= max(before, mate.score) - 1e-6
        walker.ascend(100)
        check_score(graph, walker)
        here = walker.score
        for i in range(len(walker.x)):
            for state in range(model.card[i]):
                x = walker.x.copy()
                x[i] = state
                mate.start(x)
                assert mate.score <= here + 1e-6


@pytest.mark.parametrize("solver", ["local-search(patience=10)", "beam(width=300, count_zeros=true)"])
def test_optima_of_small_mixtures(solver: str) -> None:
    for graph in mixtures(range(25)):
        best = scores_from_tables(graph).max()
        found = solve(graph, "MAP", solver)
        if best == -math.inf:
            assert found.status is Status.ZERO_PROBABILITY or found.log_score == -math.inf
        else:
            assert found.log_score == pytest.approx(best, abs=1e-9)


def test_best_first_is_never_above_the_optimum() -> None:
    graphs = [g for g in mixtures(range(20)) if scores_from_tables(g).max() > -math.inf]
    for graph, found in zip(graphs, solve(graphs, "MAP", "best-first"), strict=True):
        assert found.log_score <= scores_from_tables(graph).max() + 1e-9


def test_forest_moves_flip_two_bits_of_a_check_at_once() -> None:
    """No single change helps: both bits of every check have to move."""
    checks = [([i, i + 1], Parity()) for i in range(11)]
    graph = FactorGraph([2] * 12, [*checks, ([0], [1.0, 5.0])])
    model = MoveModel(compile(graph))
    walker = Walker(model, np.random.default_rng(0))
    walker.start(np.zeros(12, int))
    walker.optimise_forest()
    assert walker.x.all()


@pytest.mark.parametrize("size", [1_000, 100_000])
def test_factors_of_any_length(size: int) -> None:
    rng = np.random.default_rng(0)
    signs = rng.integers(0, 2, size).astype(bool)
    field = [([i], np.exp(rng.normal(size=2))) for i in range(0, size, size // 100)]
    literals = np.flatnonzero(~signs)
    # The best states of single variables violate the clause, and the parity before or after the clause is repaired.
    graph = FactorGraph([2] * size, [(range(size), Clause(signs)), (range(size), Parity(odd=True)), *field])
    found = solve(graph, "MAP", "local-search(iterations=4)")
    assert found.log_score > -math.inf
    x = found.assignment
    assert x.sum() % 2 == 1
    assert (x[signs] == 1).any() or (x[literals] == 0).any()
    soft = FactorGraph([2] * size, [(range(size), Parity(log_values=(0.0, 1.0))), (range(size), Clause(signs))])
    drawn = solve(soft, "MAR", "gibbs(chains=2, burn_in=1, samples=4)")
    assert drawn.marginals is not None
    assert solve(soft, "MAP", "best-first(steps=3)").assignment is not None


def test_keys_of_wide_sparse_tables() -> None:
    rng = np.random.default_rng(0)
    listed = rng.integers(0, 3, (40, 100))
    graph = FactorGraph([3] * 100, [(range(100), SparseTable(listed, rng.normal(size=40), default=-1.0))])
    model = MoveModel(compile(graph))
    walker = Walker(model, rng)
    for x in listed[:5]:
        walker.start(x)
        assert walker.score == pytest.approx(graph.log_score(x))
        walker.tabu(3, 1, 2)
        check_score(graph, walker)


@pytest.mark.slow
def test_smoothness_without_tables() -> None:
    """Compare a chain of 40 labels with the same graph as dense tables."""
    rng = np.random.default_rng(1)
    unary = [([i], rng.random(40)) for i in range(8)]
    pairs = [([i, i + 1], Potts(0.8) if i % 2 else TruncatedLinear(0.1, 1.0)) for i in range(7)]
    graph = FactorGraph([40] * 8, [*unary, *pairs])
    want = solve(graph, "MAP", "exact").log_score
    assert solve(graph, "MAP", "local-search(patience=10)").log_score == pytest.approx(want)


@pytest.mark.parametrize(("k", "ratio"), [(3, 3.8), (5, 15.0)])
def test_formulas_are_solved(k: int, ratio: float) -> None:
    formula = random_ksat(500, ratio, k=k, seed=1)
    found = solve(formula, "MAP", "local-search", seed=2, time_limit=60.0)
    assert found.log_score == 0.0
    again = solve(formula, "MAP", "local-search(iterations=5)", seed=2)
    same = solve(formula, "MAP", "local-search(iterations=5)", seed=2)
    np.testing.assert_array_equal(again.assignment, same.assignment)


def test_a_focused_walk_tracks_its_zeros() -> None:
    formula = random_ksat(200, 6.0, seed=3)
    model = MoveModel(compile(formula))
    rng = np.random.default_rng(0)
    walk = FocusedWalk(model, rng, model.random_assignment(rng))
    for _ in range(3):
        walk.step()
        holds = violated(formula, walk.best_x)
        assert round(-walk.best_score / model.penalty) == holds
        assert walk.num_zeros >= holds > 0


def test_improve_takes_kinds_and_evidence() -> None:
    formula = random_ksat(300, 3.0, seed=5).condition({0: 1, 7: 0})
    x = np.zeros(300, int)
    x[0] = 1
    better, score = improve(formula, x, Clock(), seed=1, patience=20)
    assert score == 0.0
    assert (better[0], better[7]) == (1, 0)
