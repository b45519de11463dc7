"""Local search: optima of small graphs, repeatable phases, deadlines."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from search_graphs import check_never_above_the_optimum, optimum, some_graphs

from equifactor import FactorGraph, ModelError, OptionError, Status, solve
from equifactor.base.clock import Clock
from equifactor.factors.move_model import MoveModel
from equifactor.formats import read_evidence, read_graph
from equifactor.generators import ising_grid
from equifactor.graph import compile
from equifactor.solvers.search.local_search import LocalSearch, improve


@pytest.mark.parametrize("solver", ["local-search", "local-search(start=random)"])
def test_never_above_the_optimum(solver: str) -> None:
    check_never_above_the_optimum(solver)


def test_local_search_finds_the_optimum_of_small_graphs() -> None:
    for graph in some_graphs():
        assert solve(graph, "MAP", "local-search").log_score == pytest.approx(optimum(graph), abs=1e-9)


def test_local_search_solves_a_grid_as_exact_does() -> None:
    graph = ising_grid(10, 10, seed=3)
    got = solve(graph, "MAP", "local-search(patience=300)")
    assert got.log_score == pytest.approx(solve(graph, "MAP", "exact").log_score, abs=1e-9)
    assert got.status is Status.CONVERGED


def test_local_search_leaves_impossible_assignments() -> None:
    """Neighbours on a ring must differ in three colours, so a random start has zeros."""
    differ = 1.0 - np.eye(3)
    graph = FactorGraph([3] * 60, [([i, (i + 1) % 60], differ) for i in range(60)])
    assert solve(graph, "MAP", "local-search(start=random, patience=100)").log_score == 0.0


def test_the_seed_decides() -> None:
    graph = ising_grid(15, 15, seed=1)
    runs = [solve(graph, "MAP", "local-search(iterations=20)", seed=seed).assignment for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_improve_never_lowers_the_score_and_respects_evidence() -> None:
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
    with pytest.raises(ModelError, match="batch of 2"):
        improve(compile([graph, graph]), np.zeros(4, int), Clock())


def test_deadline_holds(driven_time) -> None:
    driven_time.tick = 0.01
    graph = ising_grid(60, 60, seed=0)
    got = solve(graph, "MAP", "local-search", time_limit=0.3)
    assert got.status is Status.TIME_LIMIT
    assert got.seconds < 0.5  # the solver checks the clock at most twenty times more


def test_options_are_checked() -> None:
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
    assert last == pytest.approx(graph.log_score(model.flat.assignments(search.best)[0]), rel=1e-9)


def test_a_part_of_a_phase_makes_fewer_moves_and_keeps_the_best() -> None:
    model = MoveModel(compile(ising_grid(20, 20, seed=2)))
    search = LocalSearch(model, model.unary_assignment())
    assert search.phase_work > 0.0
    for n in range(30):
        before = search.score
        search.step(0.5**n)  # The last ones are single regions and a few moves.
        assert search.score >= before - 1e-9


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
