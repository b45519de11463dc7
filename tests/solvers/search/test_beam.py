"""Beam search and best-first search."""

from __future__ import annotations

import math

import numpy as np
import pytest
from search_graphs import check_never_above_the_optimum, optimum, some_graphs

from equifactor import FactorGraph, OptionError, Status, solve
from equifactor.factors.move_model import MoveModel
from equifactor.generators import ising_grid
from equifactor.graph import compile

SEEDS = range(6)


@pytest.mark.parametrize("solver", ["best-first", "beam", "beam(width=3)"])
def test_never_above_the_optimum(solver: str) -> None:
    check_never_above_the_optimum(solver)


def test_wide_beam_finds_the_optimum() -> None:
    for graph in some_graphs():
        got = solve(graph, "MAP", "beam(width=500, count_zeros=true)")
        assert got.log_score == pytest.approx(optimum(graph), abs=1e-9)


def test_beam_is_the_paper_s_algorithm() -> None:
    """Compare with a plain loop over the definition, on a graph without ties."""
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
    assert not stuck.status.solved
    assert stuck.log_score == -math.inf
    assert "probability" in stuck.message
    assert solve(graph, "MAP", "beam(width=300, count_zeros=true)", seed=1).log_score == 0.0


def test_step_limit_is_kept() -> None:
    got = solve(ising_grid(10, 10, seed=0), "MAP", "best-first(steps=3)")
    assert got.status is Status.ITERATION_LIMIT
    assert got.iterations == 3


def test_the_seed_decides() -> None:
    graph = ising_grid(15, 15, seed=1)
    for solver in ("beam(width=4)", "best-first"):
        runs = [solve(graph, "MAP", solver, seed=seed).assignment for seed in (1, 1, 2)]
        np.testing.assert_array_equal(runs[0], runs[1])
        assert not np.array_equal(runs[0], runs[2])


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="width must be at least 1"):
        solve(ising_grid(2, 2), "MAP", "beam(width=0)")
