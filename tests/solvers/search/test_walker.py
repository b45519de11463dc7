"""One assignment that moves: incremental scores, ascent, block moves, recombination."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from search_graphs import some_graphs

from equifactor import FactorGraph, solve
from equifactor.factors.move_model import MoveModel
from equifactor.generators import ising_grid, random_tree
from equifactor.graph import compile
from equifactor.solvers.search.tree_regions import RegionPlan
from equifactor.solvers.search.walker import Walker

SEEDS = range(6)


def walker_at(graph: FactorGraph, x: np.ndarray | None = None, seed: int = 0) -> tuple[Walker, MoveModel]:
    model = MoveModel(compile(graph))
    rng = np.random.default_rng(seed)
    walker = Walker(model, rng)
    walker.start(model.random_assignment(rng) if x is None else x)
    return walker, model


def score_of(graph: FactorGraph, model: MoveModel, x: np.ndarray) -> float:
    return graph.log_score(model.flat.assignments(x)[0])


def check_score(graph: FactorGraph, walker: Walker, model: MoveModel) -> None:
    true = score_of(graph, model, walker.x)
    assert walker.possible == math.isfinite(true)
    if walker.possible:
        assert walker.score == pytest.approx(true, rel=1e-9, abs=1e-7)


@pytest.mark.parametrize("graph", some_graphs(), ids=str)
def test_incremental_score_equals_log_score_after_many_moves(graph: FactorGraph) -> None:
    walker, model = walker_at(graph)
    check_score(graph, walker, model)
    for _ in range(5):
        walker.tabu(500, 1, 4)
        check_score(graph, walker, model)
        walker.anneal(RegionPlan(5, 2, len(walker.x), 4), 1.0)
        check_score(graph, walker, model)
        walker.ascend(1000)
        check_score(graph, walker, model)


@pytest.mark.parametrize("graph", some_graphs()[4:8], ids=str)
def test_score_orders_by_number_of_zeros_first(graph: FactorGraph) -> None:
    model = MoveModel(compile(graph))
    walker = Walker(model, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    seen: list[tuple[int, float]] = []
    for _ in range(200):
        x = model.random_assignment(rng)
        walker.start(x)
        at = [graph.log_table(a)[tuple(x[graph.structure.scope(a)])] for a in range(graph.num_factors)]
        seen.append((int(np.isneginf(at).sum()), walker.score))
        assert walker.possible == (seen[-1][0] == 0)
    scores: dict[int, list[float]] = {}
    for zeros, score in seen:
        scores.setdefault(zeros, []).append(score)
    ordered = sorted(scores)
    assert len(ordered) > 1
    for fewer, more in itertools.pairwise(ordered):
        assert min(scores[fewer]) > max(scores[more])


def test_ascent_ends_where_no_single_change_improves() -> None:
    for graph in some_graphs():
        walker, model = walker_at(graph, seed=3)
        walker.ascend(10_000)
        here = walker.score
        other, _ = walker_at(graph)
        for i in range(len(walker.x)):
            for state in range(model.card[i]):
                x = walker.x.copy()
                x[i] = state
                other.start(x)
                assert other.score <= here + 1e-7


@pytest.mark.parametrize("seed", SEEDS)
def test_one_forest_move_solves_a_tree(seed: int) -> None:
    graph = random_tree(14, card=(2, 3), zeros=0.2 * (seed % 2), seed=seed)
    walker, model = walker_at(graph, seed=seed)
    walker.optimise_forest()
    want = solve(graph, "MAP", "exact").log_score
    assert score_of(graph, model, walker.x) == pytest.approx(want, abs=1e-9)


def test_one_forest_move_solves_several_trees_at_once() -> None:
    rng = np.random.default_rng(0)
    chains = [([i, i + 1], rng.uniform(0.1, 2.0, (3, 3))) for i in range(12) if i % 4 != 3]
    graph = FactorGraph([3] * 13, chains)
    walker, model = walker_at(graph)
    walker.optimise_forest()
    want = solve(graph, "MAP", "exact").log_score
    assert score_of(graph, model, walker.x) == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("graph", some_graphs(), ids=str)
def test_forest_moves_never_lose(graph: FactorGraph) -> None:
    walker, _ = walker_at(graph, seed=1)
    for heat in (0.0, 0.5, 5.0):
        for _ in range(20):
            before = walker.score
            walker.anneal(RegionPlan(1, 1, len(walker.x), 3), heat)
            assert walker.score >= before - 1e-6


def test_recombination_is_at_least_as_good_as_both() -> None:
    for seed in SEEDS:
        graph = ising_grid(8, 8, seed=seed)
        a, model = walker_at(graph, seed=seed)
        b, _ = walker_at(graph, seed=seed + 100)
        a.ascend(1000)
        b.ascend(1000)
        first, second = a.score, b.score
        a.recombine(b.x)
        check_score(graph, a, model)
        assert a.score >= max(first, second) - 1e-9
