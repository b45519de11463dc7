"""Exact moves of blocks in plain NumPy: optima of small graphs, blocks within their limit, zeros, the deadline."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from search_graphs import optimum, some_graphs

from equifactor import FactorGraph, Status
from equifactor.base.clock import Clock
from equifactor.base.status import Task
from equifactor.generators import ising_grid, random_graph
from equifactor.solvers.elimination.orders import PlanningLimits
from equifactor.solvers.elimination.plain_orders import Planner
from equifactor.solvers.search.block_search import BlockSearch, PlainBlocks, random_block
from equifactor.solving.estimate import Estimate
from equifactor.solving.solver import SolveContext


def run(graph: FactorGraph, clock: Clock | None = None, start: Any = None) -> Estimate:
    return PlainBlocks(start).run([graph], Task.MAP, SolveContext(clock=clock or Clock(), seed=0))[0]


def test_it_proves_the_optimum_of_small_graphs() -> None:
    for graph in some_graphs():
        found = run(graph)
        if optimum(graph) == -math.inf:
            assert found.status is Status.ZERO_PROBABILITY
        else:
            assert found.status is Status.OPTIMAL
            assert graph.log_score(found.assignment) == pytest.approx(optimum(graph), abs=1e-9)


def test_the_tables_of_a_block_are_within_the_limit() -> None:
    graph = random_graph(40, 60, arity=(1, 3), card=(2, 4), seed=1)
    bits = np.log2(graph.card).tolist()
    near = Planner(graph.structure, PlanningLimits()).near
    for most in (2.0, 6.0, 9.0):
        block = random_block(near, bits, most, np.random.default_rng(2))
        assert sorted(block.kept + block.variables) == list(range(40))
        tables = zip(block.variables, block.separators, strict=True)
        assert max(bits[v] + sum(bits[i] for i in around) for v, around in tables) <= most


def test_a_step_never_lowers_the_score_and_leaves_impossible_assignments() -> None:
    differ = 1.0 - np.eye(3)
    ring = [((i, (i + step) % 36), differ) for i in range(36) for step in (1, 5)]
    graph = FactorGraph([3] * 36, ring)
    search = BlockSearch(graph, np.zeros(36, np.int64), 0)
    search._most_bits = 4.0
    scores = [search.score]
    for _ in range(6):
        search.step(Clock(), math.inf)
        scores.append(search.score)
    assert scores == sorted(scores)
    assert graph.log_score(search.best) == 0.0


def test_without_time_the_start_is_returned_or_nothing() -> None:
    graph = ising_grid(6, 6, seed=3)
    assert run(graph, Clock(0.0)).assignment is None
    seconds = iter(np.arange(0.0, 100.0, 0.05))
    clock = Clock(1.0)
    clock.start = 0.0
    before, Clock.now = Clock.now, lambda: float(next(seconds))  # type: ignore[assignment]
    try:
        found = run(graph, clock)
    finally:
        Clock.now = before
    assert found.status in (Status.TIME_LIMIT, Status.OPTIMAL)
    assert found.assignment is not None
