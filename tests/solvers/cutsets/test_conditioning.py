"""Sums over a cutset against elimination: the same answers in less memory."""

from __future__ import annotations

import math

import numpy as np
import pytest

from equifactor import FactorGraph, Status, solve
from equifactor.base.clock import Clock
from equifactor.base.status import Task
from equifactor.generators import ising_grid, pairwise_field, random_graph
from equifactor.solvers.cutsets import conditioning
from equifactor.solvers.cutsets.conditioning import best_cutset
from equifactor.solvers.cutsets.cutset_choice import BlockLimits, cover, order_seconds
from equifactor.solvers.cutsets.cutset_levels import choose_states
from equifactor.solving.solver import SolveContext

RNG = np.random.default_rng(0)
GRAPHS = {
    "grid": ising_grid(5, 5, coupling_std=2.0, seed=0),
    "ragged": random_graph(9, 16, arity=(1, 3), card=(2, 4), seed=1),
    "evidence": random_graph(9, 16, arity=(1, 3), card=(2, 4), seed=1).condition({0: 1, 5: 0}),
    "zeros": random_graph(9, 12, arity=(1, 3), card=(2, 3), zeros=0.2, seed=3),
    "huge couplings": ising_grid(4, 4, coupling_std=300.0, seed=2),
}


@pytest.mark.parametrize("memory", [0.0, 1e-6, 1e-5])
@pytest.mark.parametrize("name", GRAPHS)
def test_it_is_exact_whatever_the_memory(name: str, memory: float) -> None:
    graph = GRAPHS[name]
    got = solve(
        graph, "MAR", f"conditioning(memory_limit={memory})" if memory or graph.num_vars < 12 else "conditioning"
    )
    want = solve(graph, "MAR", "exact")
    assert got.status is Status.EXACT
    assert got.log_z == pytest.approx(want.log_z, abs=1e-8)
    np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=1e-9)
    assert solve(graph, "PR", "conditioning(memory_limit=1e-5)").log_z == pytest.approx(want.log_z, abs=1e-8)


def test_less_memory_means_a_larger_cutset() -> None:
    graph = GRAPHS["grid"]
    large, small = (solve(graph, "PR", f"conditioning(memory_limit={m})").stats for m in (1e-3, 1e-6))
    assert large["cutset"] == 0
    assert small["cutset"] > 1
    assert small["width"] < large["width"]


def test_a_sum_that_takes_too_long_is_not_begun() -> None:
    got = solve(ising_grid(30, 30, seed=0), "MAR", "conditioning(memory_limit=1e-5)", time_limit=1.0)
    assert got.status in (Status.TIME_LIMIT, Status.TOO_LARGE)
    assert "cutset" in got.message
    assert not got.answered


@pytest.mark.parametrize("limit", [None, 0.01])
def test_no_cutset_that_fits_is_said(limit: float | None, driven_time) -> None:
    driven_time.tick = 0.001
    got = solve(ising_grid(30, 30, seed=0), "PR", "conditioning(memory_limit=1e-6)", time_limit=limit)
    assert got.status is Status.TOO_LARGE
    assert got.message.startswith("No cutset of at most 4,194,304 states was found that leaves tables within 1.05 KiB.")


def test_a_sum_that_is_cut_short_is_a_lower_bound(monkeypatch: pytest.MonkeyPatch, driven_time) -> None:
    driven_time.tick = 0.05
    monkeypatch.setattr(conditioning, "ACCEPTED_OVERRUN", 1e9)
    monkeypatch.setattr(conditioning, "_CHOICE_SHARE", 1e9)
    graph = ising_grid(14, 14, seed=0)
    got = solve(graph, "PR", "conditioning(memory_limit=2e-5)", time_limit=2.5)
    assert got.status is Status.TIME_LIMIT
    assert got.lower_bound < solve(graph, "PR", "exact").log_z
    assert got.upper_bound is None


def test_blocks_sum_over_the_cutset_where_that_is_cheap() -> None:
    graph = ising_grid(6, 6, seed=0)
    got = solve(graph, "MAR", "blocks(memory_limit=2e-6)")
    assert got.status is Status.EXACT
    assert got.stats["cutset"] > 0


def test_no_variables_and_no_assignment() -> None:
    assert solve(FactorGraph([2], [([0], [1.0, 2.0])]).condition({0: 1}), "MAR", "conditioning").status is Status.EXACT
    graph = FactorGraph([2, 2, 2], [([i, j], 1 - np.eye(2)) for i, j in ((0, 1), (1, 2), (0, 2))])
    assert solve(graph, "MAR", "conditioning(memory_limit=0)").status is Status.ZERO_PROBABILITY


def test_a_large_grid_in_little_memory_keeps_what_does_not_change() -> None:
    """Only the clusters of the innermost loops are recomputed for every state of the cutset."""
    graph = ising_grid(11, 11, coupling_std=2.0, seed=5)
    nested = best_cutset(graph, 2e-5, Task.MAR, 0)
    assert nested.entries < 0.7 * nested.cut.entries * nested.states[-1]
    got, want = (solve(graph, "MAR", f"{name}(memory_limit=2e-5)") for name in ("conditioning", "auto"))
    assert got.status is want.status is Status.EXACT
    np.testing.assert_allclose(got.marginals.values, solve(graph, "MAR", "exact").marginals.values, atol=1e-9)


def test_marginals_from_a_draw_of_states_have_an_honest_error(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ising_grid(10, 10, coupling_std=0.7, seed=5)
    monkeypatch.setattr(conditioning.CutsetSums, "_choose", lambda _, p, *rest: choose_states(p, 8, RNG))
    got = solve(graph, "MAR", "conditioning(memory_limit=1e-5)")
    want = solve(graph, "MAR", "exact")
    assert got.log_z == pytest.approx(want.log_z, abs=1e-9)
    assert got.standard_errors is not None
    assert "ln Z is exact" in got.message
    off = np.abs(got.marginals.values - want.marginals.values)
    assert 0.0 < off.max() < 3.0 * got.stats["max_standard_error"] < 0.6


def test_states_that_stand_for_others_are_right_on_average() -> None:
    rng = np.random.default_rng(0)
    weight = rng.dirichlet(np.full(200, 0.1))
    value = rng.random(200)
    means = []
    for _ in range(400):
        chosen, by, error = choose_states(weight, 20, rng)
        assert len(chosen) <= 21
        means.append(by @ value[chosen])
    assert np.mean(means) == pytest.approx(weight @ value, abs=4 * np.std(means) / 20)
    assert np.std(means) <= error
    chosen, by, error = choose_states(weight, 200, rng)
    assert error == 0.0
    assert by.sum() == pytest.approx(1.0, abs=1e-10)


def test_the_clock_may_stop_the_marginals() -> None:
    """The sums so far are an answer, whose error is the probability of the states that are left out."""
    graph = ising_grid(9, 9, coupling_std=0.5, seed=5)
    sums = conditioning.CutsetSums(graph, best_cutset(graph, 5e-6, Task.MAR, 0))
    context = SolveContext(clock=Clock(60.0))
    assert sums.make_sums(context, math.inf, gives_up=False)
    context.clock.time_limit = 0.0
    values, error = sums.marginals(context, math.inf)
    assert 0 < sums.chosen < len(sums.log_sum)
    got = values.reshape(-1, 2) / values.reshape(-1, 2).sum(axis=1, keepdims=True)
    want = solve(graph, "MAR", "exact").marginals.values.reshape(-1, 2)
    assert 0.0 < np.abs(got - want).max() <= error < 1.0


@pytest.mark.parametrize("zeros", [0.0, 0.3])
@pytest.mark.parametrize("memory", [1e-3, 1e-7])
def test_a_pass_can_be_cut_anywhere(driven_time, monkeypatch: pytest.MonkeyPatch, zeros: float, memory: float) -> None:
    """A single pass may take longer than the time limit, so the kernel returns in the middle of it."""
    graph = random_graph(14, 20, arity=(2, 3), card=(2, 3), zeros=zeros, seed=3)
    driven_time.tick = 0.0  # The remaining time affects the choice of the cutset.
    whole = solve(graph, "MAR", f"conditioning(memory_limit={memory})")
    monkeypatch.setattr(conditioning, "_FIRST_EFFORT", 1)
    monkeypatch.setattr(conditioning, "_next_effort", lambda effort, seconds: 1)
    pieces = solve(graph, "MAR", f"conditioning(memory_limit={memory})")
    assert (pieces.status, pieces.log_z) == (whole.status, whole.log_z)
    np.testing.assert_array_equal(pieces.marginals.values, whole.marginals.values)


def test_a_pass_that_is_too_long_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch, driven_time) -> None:
    driven_time.tick = 0.01
    monkeypatch.setattr(conditioning, "_FIRST_EFFORT", 1)
    monkeypatch.setattr(conditioning, "_next_effort", lambda effort, seconds: 1)
    begin = driven_time()
    got = solve(ising_grid(12, 12, seed=0), "PR", "conditioning(memory_limit=1)", time_limit=5.0)
    assert got.status is Status.TIME_LIMIT
    assert driven_time() - begin < 6.0


def test_blocks_are_not_chosen_after_the_time_is_over() -> None:
    structure, limits = ising_grid(5, 5, seed=0).structure, BlockLimits(16.0, 16.0)
    draws = np.random.default_rng(0)
    cuts = cover(structure, limits, np.zeros(25), draws)
    assert (~np.array([cut.is_cut for cut in cuts])).any(axis=0).all()
    assert not cover(structure, limits, np.zeros(25), draws, over=lambda: True)


def test_an_order_of_a_dense_graph_takes_longer() -> None:
    dense, sparse = (pairwise_field(60, topology=t, seed=0).structure for t in ("complete", "regular"))
    assert order_seconds(dense) > order_seconds(sparse) > 0.0
    assert order_seconds(FactorGraph([2], []).structure) > 0.0
    said = solve(ising_grid(5, 5, seed=0), "MAR", "conditioning", time_limit=0.0)
    assert not said.answered
