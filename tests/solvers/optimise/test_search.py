"""Search for the most probable assignment: incremental scores, block moves, beam search, local search."""

from __future__ import annotations

import itertools
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from equifactor import FactorGraph, OptionError, Status, solve
from equifactor.clock import Clock
from equifactor.generators import ising_grid, random_graph, random_tree
from equifactor.graph import compile
from equifactor.graph.move_model import MoveModel
from equifactor.io import read_evidence, read_graph
from equifactor.solvers.optimise.local_search import LocalSearch, improve
from equifactor.solvers.optimise.walker import RegionPlan, Walker

SEEDS = range(6)


def some_graphs() -> list[FactorGraph]:
    """Different arities, cardinalities and zeros, each with at most 2^15 joint states."""
    graphs = [random_graph(8, 14, arity=(1, 4), card=(2, 3), seed=s) for s in range(4)]
    graphs += [random_graph(8, 12, arity=(1, 3), card=(2, 3), zeros=0.3, seed=s) for s in range(4)]
    graphs += [ising_grid(3, 4, seed=s) for s in range(2)]
    graphs.append(FactorGraph([2, 3], [([0, 1], np.ones((2, 3))), ([1, 0], [[1.0, 2.0], [3.0, 4.0], [5.0, 1.0]])]))
    graphs.append(graphs[0].condition({1: 0, 4: 1}))
    return graphs


def optimum(graph: FactorGraph) -> float:
    best = solve(graph, "MAP", "brute").log_score
    assert best is not None
    return best


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


# ---- incremental scores ---------------------------------------------------------------------------------


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


# ---- moves ----------------------------------------------------------------------------------------------


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


# ---- beam search ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "solver", ["best-first", "beam", "beam(width=3)", "local-search", "local-search(start=random)"]
)
def test_never_above_the_optimum(solver: str) -> None:
    for graph in some_graphs():
        got = solve(graph, "MAP", solver, seed=5)
        assert got.log_score is not None
        assert got.log_score <= optimum(graph) + 1e-9
        assert got.status is Status.CONVERGED


def test_wide_beam_finds_the_optimum() -> None:
    for graph in some_graphs():
        got = solve(graph, "MAP", "beam(width=500, count_zeros=true)")
        assert got.log_score == pytest.approx(optimum(graph), abs=1e-9)


def test_beam_is_the_paper_s_algorithm() -> None:
    """Against a plain loop over the definition, on a graph without ties."""
    graph = ising_grid(3, 3, seed=1)
    for seed in SEEDS:
        for width in (1, 2, 5):
            model = MoveModel(compile(graph))
            rng = np.random.default_rng(seed)
            rng.integers(0, 2**64, model.flat.num_states, np.uint64)
            start = tuple(model.random_assignment(rng).tolist())
            cache = {start: graph.log_score(np.array(start))}
            steps = 0
            while True:
                steps += 1
                visited = dict(cache)
                for x in cache:
                    for i in range(9):
                        y = (*x[:i], 1 - x[i], *x[i + 1 :])
                        visited[y] = graph.log_score(np.array(y))
                best = dict(sorted(visited.items(), key=lambda item: -item[1])[:width])
                if best.keys() == cache.keys():
                    break
                cache = best
            got = solve(graph, "MAP", f"beam(width={width})", seed=seed)
            assert got.log_score == pytest.approx(max(cache.values()), abs=1e-9)
            assert got.iterations == steps


def test_impossible_states_tie_unless_zeros_are_counted() -> None:
    equal = np.eye(3)
    graph = FactorGraph([3] * 8, [([i, i + 1], equal) for i in range(7)])
    stuck = solve(graph, "MAP", "best-first", seed=1)
    assert stuck.status is Status.CONVERGED
    assert stuck.log_score == -math.inf
    assert "probability" in stuck.message
    assert solve(graph, "MAP", "beam(width=300, count_zeros=true)", seed=1).log_score == 0.0


def test_step_limit_is_kept() -> None:
    got = solve(ising_grid(10, 10, seed=0), "MAP", "best-first(steps=3)")
    assert got.status is Status.ITERATION_LIMIT
    assert got.iterations == 3


# ---- local search ---------------------------------------------------------------------------------------


def test_local_search_finds_the_optimum_of_small_graphs() -> None:
    for graph in some_graphs():
        assert solve(graph, "MAP", "local-search").log_score == pytest.approx(optimum(graph), abs=1e-9)


def test_local_search_solves_a_grid_as_exact_does() -> None:
    graph = ising_grid(10, 10, seed=3)
    got = solve(graph, "MAP", "local-search(patience=300)")
    assert got.log_score == pytest.approx(solve(graph, "MAP", "exact").log_score, abs=1e-9)
    assert got.status is Status.CONVERGED


def test_local_search_leaves_impossible_assignments() -> None:
    """Neighbours differ in three colours on a ring: a random start has zeros."""
    differ = 1.0 - np.eye(3)
    graph = FactorGraph([3] * 60, [([i, (i + 1) % 60], differ) for i in range(60)])
    assert solve(graph, "MAP", "local-search(start=random, patience=100)").log_score == 0.0


def test_the_seed_decides() -> None:
    graph = ising_grid(15, 15, seed=1)
    for solver in ("local-search(iterations=20)", "beam(width=4)", "best-first"):
        runs = [solve(graph, "MAP", solver, seed=seed).assignment for seed in (1, 1, 2)]
        np.testing.assert_array_equal(runs[0], runs[1])
        assert not np.array_equal(runs[0], runs[2])


def test_improve_never_loses_and_respects_evidence() -> None:
    rng = np.random.default_rng(0)
    for graph in some_graphs():
        x = rng.integers(0, graph.card)
        for i, state in graph.evidence.items():
            x[i] = state
        better, score = improve(graph, x, Clock(), seed=1, patience=20)
        assert score == graph.log_score(better)
        assert score >= graph.log_score(x)
        assert all(better[i] == state for i, state in graph.evidence.items())
        again, same = improve(compile(graph), x, Clock(), seed=1, patience=20)
        np.testing.assert_array_equal(better, again)
        assert same == score


def test_improve_refuses_a_batch() -> None:
    graph = ising_grid(2, 2, seed=0)
    with pytest.raises(ValueError, match="batch of 2"):
        improve(compile([graph, graph]), np.zeros(4, int), Clock())


def test_deadline_holds() -> None:
    graph = ising_grid(60, 60, seed=0)
    got = solve(graph, "MAP", "local-search", time_limit=0.3)
    assert got.status is Status.TIME_LIMIT
    assert got.seconds < 5.0  # far below the patience, far above what a busy machine needs


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="width must be at least 1"):
        solve(ising_grid(2, 2), "MAP", "beam(width=0)")
    with pytest.raises(OptionError, match="cannot do MAR"):
        solve(ising_grid(2, 2), "MAR", "local-search")


def test_phases_report_the_best_score() -> None:
    graph = ising_grid(6, 6, seed=2)
    model = MoveModel(compile(graph))
    search = LocalSearch(model, model.unary_assignment())
    last = -math.inf
    for _ in range(30):
        before = search.score
        better = search.step()
        assert search.score >= before - 1e-9
        if search.phases > 2:
            assert better == (search.score > before + model.smallest_gain)
        last = search.score
    assert last == pytest.approx(score_of(graph, model, search.best), rel=1e-9)


@pytest.mark.data
@pytest.mark.parametrize(("collection", "count"), [("Segment", 4), ("DBN", 3), ("Protein", 4)])
def test_public_models_are_solved_within_seconds(collection: str, count: int) -> None:
    folder = os.environ.get("EQUIFACTOR_DATA")
    if not folder:
        pytest.skip("EQUIFACTOR_DATA is not set")
    root = Path(folder)
    records = [r for r in json.loads((root / "index.json").read_text()) if r["collection"] == collection]
    for record in records[:: max(1, len(records) // count)]:
        path = root / collection / f"{record['name']}.uai.gz"
        graph = read_graph(path)
        evidence = path.with_suffix("").with_suffix(".uai.evid")
        if evidence.exists():
            graph = graph.condition(read_evidence(evidence, graph))
        got = solve(graph, "MAP", "local-search", time_limit=5.0)
        assert got.log_score == pytest.approx(record["map_log_score"], rel=1e-6)
