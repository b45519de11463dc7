"""Sampling in blocks: exact draws and conditionals, honest errors, zeros, deadlines, equal answers for equal seeds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from equifactor import FactorGraph, Status, solve
from equifactor.base.clock import Clock
from equifactor.generators import ising_grid, ising_strip, random_graph
from equifactor.solvers.cutsets.cutset_choice import BlockLimits, cover, cut_to_fit
from equifactor.solvers.sampling import running_batches
from equifactor.solvers.sampling.block_chains import BlockChains
from equifactor.solvers.sampling.running_batches import (
    RunningBatches,
    slowness,
    squared_errors,
    unseen_errors,
    widened,
)

# Blocks of these sizes leave a cutset of small graphs, and the cutset is not summed over.
SAMPLED = "blocks(enumerate=false, memory_limit=1e-7, sweeps=400)"
GRAPHS = {
    "grid": ising_grid(3, 4, seed=0),
    "strong": ising_grid(3, 4, coupling_std=2.0, seed=5),
    "ragged": random_graph(7, 12, arity=(1, 3), card=(2, 4), seed=1),
    "evidence": random_graph(7, 12, arity=(1, 3), card=(2, 4), seed=1).condition({0: 1, 5: 0}),
    "arity 4": random_graph(7, 6, arity=4, card=(2, 3), seed=2),
    "zeros": random_graph(8, 14, arity=(2, 3), card=(2, 3), zeros=0.15, seed=3),
}


def chains_on(graph: FactorGraph, entries: float, ladders: int = 1) -> BlockChains:
    chains = BlockChains(graph, np.ones(1), ladders, BlockLimits(entries, 1e6), seed=3)
    chains.add_cover()
    return chains


def test_draws_of_a_block_have_the_conditional_distribution() -> None:
    """A chi-square test over all joint states of one block given the rest, and its sum against brute force."""
    from equifactor.solvers.cutsets.block_sum_kernels import block_sum
    from equifactor.solvers.elimination.draw_kernels import draw_states

    graph = random_graph(6, 9, arity=(1, 3), card=(2, 3), seed=4)
    chains = chains_on(graph, entries=30)
    block = chains.covers[0].blocks[0]
    cut = block.slicing.cut
    free = np.setdiff1d(np.arange(graph.num_vars), cut)
    assert len(cut) > 0
    assert len(free) > 2
    x = np.zeros(graph.num_vars, np.int64)
    x[cut] = graph.card[cut] - 1
    states = list(itertools.product(*(range(c) for c in graph.card[free])))
    scores = []
    for state in states:
        x[free] = state
        scores.append(graph.log_score(x))
    p = np.exp(np.array(scores) - np.logaddexp.reduce(scores))
    slicing, groups, clusters, tables, work = block.records
    variables, separators = block.slicing.variables, block.slicing.separators
    got = block_sum(graph.log_phi, x, slicing, groups, clusters, tables, work)
    assert got == pytest.approx(np.logaddexp.reduce(scores), abs=1e-9)
    number = {state: n for n, state in enumerate(states)}
    counts = np.zeros(len(states))
    draws = 20_000
    for _ in range(draws):
        draw_states(x, chains.rng[0], variables, separators, clusters, tables, np.zeros(4))
        counts[number[tuple(x[free].tolist())]] += 1
    seen = p * draws > 5
    chi2 = ((counts - draws * p)[seen] ** 2 / (draws * p)[seen]).sum()
    freedom = seen.sum() - 1
    assert abs(chi2 - freedom) < 5 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("name", GRAPHS)
def test_marginals_and_log_z_are_within_their_standard_errors(name: str) -> None:
    graph = GRAPHS[name]
    got, want = solve(graph, "MAR", SAMPLED, seed=1), solve(graph, "MAR", "exact")
    assert got.status is Status.CONVERGED, got.message
    assert got.stats["cutset"] > 0
    assert got.standard_errors is not None
    off = np.abs(got.marginals.values - want.marginals.values)
    assert np.all(off <= 5 * got.standard_errors.values + 1e-9)
    assert got.standard_errors.values.max() < 0.06
    if hasattr(got, "log_z"):
        assert abs(got.log_z - want.log_z) < 5 * got.log_z_error + 1e-9
    assert np.all(got.marginals.values[want.marginals.values == 0.0] == 0.0)


def test_log_z_is_estimated_with_its_error() -> None:
    graph = ising_grid(5, 5, coupling_std=1.0, seed=2)
    got = solve(graph, "PR", "blocks(enumerate=false, memory_limit=1e-6, sweeps=200)", seed=0)
    assert got.log_z_error is not None
    assert got.log_z_error < 0.3
    assert abs(got.log_z - solve(graph, "PR", "exact").log_z) < 5 * got.log_z_error


def test_one_variable_is_the_smallest_block() -> None:
    graph = GRAPHS["grid"]
    rng = np.random.default_rng(0)
    cuts = cover(graph.structure, BlockLimits(1.0, 1.0), np.zeros(graph.num_vars), rng)
    assert all((~cut.is_cut).sum() == 1 for cut in cuts)
    assert np.all(np.any([~cut.is_cut for cut in cuts], axis=0))
    got = solve(graph, "MAR", "blocks(enumerate=false, memory_limit=0, sweeps=100)")
    off = np.abs(got.marginals.values - solve(graph, "MAR", "exact").marginals.values)
    assert np.all(off <= 5 * got.standard_errors.values)


@pytest.mark.parametrize("entries", [100, 1000, 10_000])
def test_blocks_stay_within_their_budget_and_cover_every_variable(entries: int) -> None:
    graph = ising_grid(12, 12, seed=1)
    cuts = cover(graph.structure, BlockLimits(entries, np.inf), np.zeros(graph.num_vars), np.random.default_rng(0))
    assert all(cut.entries <= entries for cut in cuts)
    assert np.all(np.any([~cut.is_cut for cut in cuts], axis=0))


def test_a_larger_budget_cuts_less() -> None:
    graph = ising_grid(12, 12, seed=1)
    sizes = [
        cut_to_fit(graph.structure, BlockLimits(e, np.inf), np.ones(graph.num_vars)).is_cut.sum()
        for e in (1e3, 1e4, 1e6)
    ]
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[2] == 0


def test_the_seed_decides() -> None:
    spec = "blocks(enumerate=false, memory_limit=1e-6, sweeps=30)"
    first, again, other = (solve(GRAPHS["grid"], "MAR", spec, seed=s).marginals.values for s in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.slow
def test_rungs_exchange_their_states() -> None:
    graph = ising_grid(4, 4, coupling_std=1.5, seed=7)
    spec = "blocks(enumerate=false, memory_limit=3e-7, sweeps=300, temperatures=4, chains=2)"
    got, want = solve(graph, "MAR", spec), solve(graph, "MAR", "exact")
    assert min(got.stats["exchanged"]) > 0.05
    off = np.abs(got.marginals.values - want.marginals.values)
    assert np.all(off <= 5 * got.standard_errors.values)


def test_chains_jump_between_worlds_that_blocks_do_not_connect() -> None:
    """The modes are all zeros and all ones, with unequal weights. No block that has a cutset connects them."""
    same = np.eye(2)
    factors = [([i, i + 1], same) for i in range(9)]
    graph = FactorGraph([2] * 10, [*factors, ([0, 9], same), ([4], [0.3, 0.7])])
    chains = chains_on(graph, entries=12, ladders=4)
    assert all(len(block.slicing.cut) for block in chains.covers[0].blocks)
    assert chains.find_starts(Clock(), 20)
    chains.x[:2], chains.x[2:] = 0, 1
    sums = RunningBatches(4, 20)
    for _ in range(400):
        chains.sweep(chains.covers[0], sums)
        sums.end_sweeps()
    assert chains.jumped[1] > 0
    np.testing.assert_allclose(sums.findings().mean.reshape(-1, 2)[:, 1], 0.7, atol=0.12)


def test_two_chains_between_two_worlds_are_right_or_report_that_they_have_not_mixed() -> None:
    """The same two modes are equally probable. If the pool of states lacks a mode, chains cannot jump to it."""
    same = np.eye(2)
    graph = FactorGraph([2] * 10, [*(([i, i + 1], same) for i in range(9)), ([0, 9], same)])
    for seed in range(5):
        got = solve(graph, "MAR", "blocks(enumerate=false, memory_limit=1e-7, chains=2, sweeps=40)", seed=seed)
        assert got.answered
        off = abs(got.marginals[0][0] - 0.5)
        assert off <= 3 * got.standard_errors[0][0] or (got.status is not Status.CONVERGED and "mixed" in got.message)


def test_the_deadline_holds_and_answers(driven_time) -> None:
    driven_time.tick = 0.002
    graph = ising_grid(20, 20, coupling_std=1.5, seed=0)
    got = solve(graph, "MAR", "blocks", time_limit=1.0)
    assert got.seconds < 1.2  # the solver checks the clock at most a hundred times more
    assert got.status is Status.TIME_LIMIT
    assert got.answered
    assert got.standard_errors is not None
    assert len(got.standard_errors) == graph.num_vars


def test_errors_reach_the_original_graph() -> None:
    """Observed variables, states that zeros exclude, and auxiliary variables have no errors of their own."""
    got = solve(GRAPHS["evidence"], "MAR", SAMPLED)
    assert len(got.standard_errors) == 7
    assert np.all(got.standard_errors[0] == 0.0)
    assert np.any(got.standard_errors[1] > 0.0)
    assert got.to_dict()["standard_errors"][0] == [0.0] * int(GRAPHS["evidence"].card[0])


def test_impossible_models_are_said_to_be_so() -> None:
    graph = FactorGraph([2, 2, 2], [([i, j], 1 - np.eye(2)) for i, j in ((0, 1), (1, 2), (0, 2))])
    assert solve(graph, "MAR", "blocks").status is Status.ZERO_PROBABILITY
    assert solve(graph, "MAR", "blocks(enumerate=false, memory_limit=0)").status is Status.ZERO_PROBABILITY


def test_batches_merge_and_keep_their_sums() -> None:
    rng = np.random.default_rng(0)
    sums, all_values = RunningBatches(2, 3), []
    for _ in range(300):
        values = rng.random((2, 3))
        all_values.append(values)
        sums.total += values
        sums.squares += values**2
        sums.end_sweeps()
    found = sums.findings()
    assert sums.sweeps == 300
    assert sums.count < 64
    np.testing.assert_allclose(found.mean, np.mean(all_values, axis=(0, 1)), atol=0.02)
    assert np.all((found.error > 0.5 * np.sqrt(1 / 12 / 600)) & (found.error < 3 * np.sqrt(1 / 12 / 600)))


def test_errors_are_wider_where_chains_have_not_mixed() -> None:
    """Chains in modes of unknown weight are not independent samples, and no error stays far below the average."""
    chain = np.zeros((8, 3))
    chain[0, :2] = 0.8
    variance = chain.var(axis=0, ddof=1) / 8
    np.testing.assert_array_equal(widened(variance, chain, np.zeros(3)), variance)
    apart = widened(variance, chain, np.array([0.0, 1.0, 0.0]))
    assert apart[1] == pytest.approx(0.45 * 8 * variance[1])
    assert apart[0] == variance[0]
    assert apart[2] == pytest.approx((variance[0] + apart[1]) / 9)


def test_chains_count_only_if_they_vary_more_than_their_batches() -> None:
    """Chains whose batches follow each other slowly: the mean of a chain tells more than its batches."""
    rng = np.random.default_rng(0)
    slow = np.repeat(rng.standard_normal((4, 8, 1)), 8, axis=0)  # [B, L, X]
    by_batch = slow.var(ddof=1) / slow.size
    assert squared_errors(slow, slowness(slow))[0] > 4 * by_batch
    stuck = np.repeat(rng.standard_normal((1, 2, 1)), 32, axis=0)
    assert slowness(stuck) == 1.0
    assert squared_errors(stuck, 1.0)[0] > 4 * stuck.mean(axis=0).var(ddof=1) / 2
    fast = rng.standard_normal((32, 8, 40))
    assert slowness(fast) < 0.3
    ratio = squared_errors(fast, slowness(fast)) * fast[:, :, 0].size
    assert 0.9 < ratio.mean() < 1.3


def test_unseen_states_move_marginals_that_depend_on_the_draws() -> None:
    mean, square = np.array([0.3, 0.3, 0.0]), np.array([0.09, 0.3, 0.0])  # always 0.3; 0 or 1; always 0
    steady, moving, certain = unseen_errors(mean, square, 0.001) / 0.001
    assert steady < 0.1
    assert moving == certain == pytest.approx(1.2)


def test_errors_tell_the_truth_about_strong_couplings() -> None:
    """On strips too long to mix, answers and ln Z are still within their errors."""
    for seed, coupling in ((0, 0.5), (0, 2.0)):
        model = ising_strip(8, 30, coupling_std=coupling, seed=seed)
        got = solve(model.graph, "MAR", "blocks(enumerate=false, memory_limit=5e-6, sweeps=100)", seed=seed)
        off = got.marginals.values - model.marginals.values
        assert np.sqrt(np.mean(off**2)) < 1.5 * np.sqrt(np.mean(got.standard_errors.values**2))
        assert np.mean(np.abs(off) > 4 * got.standard_errors.values) < 0.02
        assert abs(got.log_z - model.log_z) < 3 * got.log_z_error


def test_a_block_that_holds_every_variable_is_exact() -> None:
    graph = ising_grid(4, 4, seed=0)
    got, want = solve(graph, "MAR", "blocks(enumerate=false, sweeps=20)"), solve(graph, "MAR", "exact")
    assert got.status is Status.EXACT
    assert got.log_z == pytest.approx(want.log_z)
    np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=1e-9)


def test_ln_z_has_an_estimate_after_few_sweeps_or_a_reason() -> None:
    rng = np.random.default_rng(0)
    tables = [np.exp(rng.standard_normal((2, 2))) * (rng.random((2, 2)) < 0.8) for _ in range(5)]
    factors = [([i, i + 1], table + np.diag([0.1, 0.0])) for i, table in enumerate(tables)]
    graph = FactorGraph([2] * 6, [*factors, ([0, 5], [[2.0, 1.0], [1.0, 3.0]])])
    want = solve(graph, "PR", "exact").log_z
    got = solve(graph, "PR", "blocks(enumerate=false, memory_limit=0, sweeps=50)")
    assert abs(got.log_z - want) < 4 * got.log_z_error
    short = solve(graph, "PR", "blocks(enumerate=false, memory_limit=0, sweeps=4)")
    assert not hasattr(short, "log_z")
    assert short.status is Status.ITERATION_LIMIT
    assert "no estimate of ln Z" in short.message
    assert "memory_limit" in short.message
    assert short.lower_bound <= want + 1e-9


def test_findings_do_not_depend_on_how_many_quantities_are_diagnosed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for chains, sweeps in ((1, 1), (1, 9), (3, 1), (4, 20)):
        sums = RunningBatches(chains, 7)
        for _ in range(sweeps):
            values = rng.random((chains, 7))
            sums.total += values
            sums.squares += values**2
            sums.end_sweeps()
        whole = sums.findings()
        monkeypatch.setattr(running_batches, "_PIECE", 1)
        for one, two in zip(whole, sums.findings(), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)
        monkeypatch.undo()


def test_with_sweeps_nothing_depends_on_the_time() -> None:
    spec = "blocks(memory_limit=5e-7, sweeps=20)"
    got, want = (solve(GRAPHS["grid"], "MAR", spec, seed=3, enumerate=flag) for flag in (True, False))
    assert got.status is not Status.EXACT
    np.testing.assert_array_equal(got.marginals.values, want.marginals.values)
