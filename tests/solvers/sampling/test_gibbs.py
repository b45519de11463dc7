"""Gibbs sampling against exact marginals, within statistical error."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor import (
    AtMost,
    Clause,
    FactorGraph,
    NoisyOr,
    OptionError,
    Parity,
    Potts,
    SparseTable,
    Status,
    Task,
    TruncatedLinear,
    solve,
)
from equifactor.base.clock import Clock
from equifactor.factors.move_model import MoveModel
from equifactor.generators import ising_grid, random_graph
from equifactor.graph import compile
from equifactor.solvers.sampling import gibbs
from equifactor.solvers.sampling.diagnostics import effective_samples, split_r_hat
from equifactor.solvers.sampling.running_batches import squared_errors
from equifactor.solving.solver import SolveContext

GRAPHS = {
    "grid": ising_grid(3, 3, seed=0),
    "ragged": random_graph(7, 12, arity=(1, 3), card=(2, 4), seed=1),
    "evidence": random_graph(7, 12, arity=(1, 3), card=(2, 4), seed=1).condition({0: 1, 5: 0}),
    "arity 4": random_graph(7, 6, arity=4, card=(2, 3), seed=2),
    "zeros": random_graph(8, 8, arity=(1, 2), card=(3, 4), zeros=0.15, seed=3),
    "unary only": FactorGraph([2, 5], [([0], [1.0, 3.0]), ([1], [0.0, 1.0, 2.0, 0.0, 4.0])]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_marginals_agree_with_exact_ones(name: str) -> None:
    graph = GRAPHS[name]
    got = solve(graph, "MAR", "gibbs(samples=20000)", seed=1)
    want = solve(graph, "MAR", "exact")
    assert got.status is Status.CONVERGED
    # Five standard errors of the worst variable, as the solver reports them.
    error = 5 * 0.5 / np.sqrt(got.stats["min_effective_samples"])
    assert error < 0.08
    np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=max(error, 1e-9))


def test_true_zeros_stay_zero() -> None:
    graph = GRAPHS["zeros"]
    got = solve(graph, "MAR", "gibbs(samples=500)")
    want = solve(graph, "MAR", "exact")
    assert np.all(got.marginals.values[want.marginals.values == 0.0] == 0.0)


def test_the_seed_decides_and_thinning_keeps_the_meaning() -> None:
    graph = GRAPHS["grid"]
    first, again, other = (solve(graph, "MAR", "gibbs(samples=200)", seed=s).marginals.values for s in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    thinned = solve(graph, "MAR", "gibbs(samples=3000, thin=5)", seed=1)
    assert thinned.iterations == pytest.approx(15000, rel=0.02)
    np.testing.assert_allclose(thinned.marginals.values, solve(graph, "MAR", "exact").marginals.values, atol=0.05)


def test_chains_that_cannot_mix_are_found_out() -> None:
    """The two modes, all zeros and all ones, are not connected by single moves, and jumps follow dense tables only."""
    graph = FactorGraph([2] * 6, [([i, i + 1], Parity()) for i in range(5)])
    results = [solve(graph, "MAR", "gibbs(chains=6)", seed=seed) for seed in range(4)]
    assert any(r.status is Status.ITERATION_LIMIT and "not mixed" in r.message for r in results)
    for r in results:
        assert r.answered


@pytest.mark.parametrize("same", [1.0, 0.999999])
def test_jumps_connect_modes_that_single_moves_do_not(same: float) -> None:
    """The two modes, all zeros and all ones, have the probabilities 0.2 and 0.8."""
    table = np.array([[same, 1.0 - same], [1.0 - same, same]])
    graph = FactorGraph([2] * 12, [*(([i, i + 1], table) for i in range(11)), ([5], [0.2, 0.8])])
    got = solve(graph, "MAR", "gibbs", seed=1)
    assert got.status is Status.CONVERGED
    assert 0.01 < got.stats["jumped"] < 1.0
    off = np.abs(got.marginals.values - solve(graph, "MAR", "exact").marginals.values)
    assert np.all(off < 4 * got.standard_errors.values)
    assert off.max() < 0.03


def test_answers_do_not_depend_on_the_clock(driven_time) -> None:
    """The kernel makes more or fewer sweeps in one call if it is faster or slower; the draws stay the same."""
    graph = ising_grid(4, 4, coupling_std=2.0, seed=0)
    answers = []
    for tick in (1e-6, 1e-2):
        driven_time.tick = tick
        answers.append(solve(graph, "MAR", "gibbs(samples=300)", seed=2).marginals.values)
    np.testing.assert_array_equal(*answers)


def test_no_possible_start_is_said() -> None:
    """Two colours cannot colour a triangle, and no table is zero everywhere."""
    differ = 1.0 - np.eye(2)
    graph = FactorGraph([2] * 3, [([0, 1], differ), ([1, 2], differ), ([2, 0], differ)])
    got = solve(graph, "MAR", "gibbs")
    assert not got.answered
    assert not got.status.solved
    assert got.status is Status.ZERO_PROBABILITY or "positive probability" in got.message


def test_deadline_gives_the_best_so_far(driven_time) -> None:
    driven_time.tick = 0.01
    got = solve(ising_grid(30, 30, seed=0), "MAR", "gibbs(samples=10000000)", time_limit=0.3)
    assert got.status is Status.TIME_LIMIT
    assert got.marginals is not None
    assert got.seconds < 0.5  # the solver checks the clock at most twenty times more


@pytest.mark.parametrize("burn_in", [0, 10**9])
def test_the_deadline_holds_within_a_draw_of_many_sweeps(burn_in: int, driven_time) -> None:
    driven_time.tick = 0.01
    got = solve(ising_grid(4, 4, seed=0), "MAR", f"gibbs(thin=200000, burn_in={burn_in})", time_limit=1.0)
    assert got.status is Status.TIME_LIMIT
    assert got.marginals is not None
    assert 0 < got.iterations < 200_000  # the first draw is cut short, and recorded
    assert got.seconds < 1.5


def test_thin_draws_do_not_depend_on_the_clock(driven_time) -> None:
    """On a slow machine one draw takes several calls of the kernel, on a fast one many draws take one call."""
    found = []
    for tick in (0.0, 1e-3, 1.0):
        driven_time.tick = tick
        found.append(solve(GRAPHS["grid"], "MAR", "gibbs(thin=7, samples=300, burn_in=5)"))
    assert {r.iterations for r in found} == {2100}
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].marginals.values, other.marginals.values)


def test_only_marginals() -> None:
    with pytest.raises(OptionError, match="cannot do PR"):
        solve(GRAPHS["grid"], "PR", "gibbs")


def test_diagnostics_on_independent_draws() -> None:
    rng = np.random.default_rng(0)
    draws = (rng.random((4, 3200, 5)) < 0.3).astype(float)  # [C, draws, X]
    batches = draws.reshape(4, 32, 100, 5).sum(axis=2).swapaxes(0, 1)  # [B, C, X]
    assert np.all(np.abs(split_r_hat(batches, batches, 100) - 1.0) < 0.01)
    worth = effective_samples(draws.mean(axis=(0, 1)), squared_errors(batches / 100, 0.0))
    assert np.all((worth > 1000) & (worth < 16000))  # 12,800 draws; the largest of three estimates of the error counts


def test_diagnostics_see_chains_that_differ() -> None:
    constant = np.zeros((8, 4, 2))
    assert np.all(split_r_hat(constant, constant, 10) == 1.0)
    constant[:, 0, 1] = 10.0
    assert np.isposinf(split_r_hat(constant, constant, 10)[1])
    assert np.all(np.isposinf(split_r_hat(constant[:1], constant[:1], 10)))


def test_marginals_of_every_kind_of_factor() -> None:
    noisy = NoisyOr(0.1, [0.3, 0.6])
    graphs = [
        FactorGraph([2] * 4, [(range(4), Clause([1, 0, 1, 1])), ([0, 1, 2], noisy), ([3], [1.0, 2.0])]),
        FactorGraph([2] * 5, [(range(5), AtMost(2)), (range(4), Parity(log_values=(0.0, 0.7)))]),
        FactorGraph([3] * 3, [([0, 1], Potts(0.5)), ([1, 2], TruncatedLinear(0.4, 0.6))]),
        FactorGraph([3] * 3, [(range(3), SparseTable([[0, 1, 2], [2, 2, 2]], [1.0, -1.0], default=0.2))]),
    ]
    for graph, got in zip(graphs, solve(graphs, "MAR", "gibbs(samples=5000)", seed=1), strict=True):
        want = solve(graph, "MAR", "brute")
        assert got.status is Status.CONVERGED
        error = 5 * 0.5 / np.sqrt(got.stats["min_effective_samples"])
        np.testing.assert_allclose(got.marginals.values, want.marginals.values, atol=max(error, 1e-9))


def test_hard_checks_hold_every_variable_and_that_is_said() -> None:
    graph = FactorGraph([2] * 6, [(range(6), Parity()), ([0], [1.0, 3.0])])
    got = solve(graph, "MAR", "gibbs(chains=1, samples=100)")
    assert got.status is Status.ITERATION_LIMIT
    assert "6 of 6 variables never changed their state" in got.message


def test_it_has_the_errors_and_the_meaning_of_blocks_of_one_variable() -> None:
    graph = random_graph(7, 12, arity=(1, 3), card=(2, 4), seed=1).condition({0: 1, 5: 0})
    want = solve(graph, "MAR", "exact").marginals.values
    single = solve(graph, "MAR", "gibbs(samples=1000, chains=8)")
    blocks = solve(graph, "MAR", "blocks(enumerate=false, memory_limit=0, sweeps=100)")
    for got in (single, blocks):
        assert got.status is Status.CONVERGED
        assert np.all(np.abs(got.marginals.values - want) <= 5 * got.standard_errors.values + 1e-12)
        assert np.all(got.standard_errors[0] == 0.0)
    assert single.stats.keys() <= blocks.stats.keys()
    assert solve(ising_grid(1, 2).condition({0: 1, 1: 0}), "MAR", "gibbs").answered


def test_fewer_chains_are_run_if_the_first_sweep_of_all_would_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ising_grid(3, 3, seed=0)
    assert "There was time" not in solve(graph, "MAR", "gibbs", time_limit=0.0).message
    monkeypatch.setattr(gibbs, "_FIRST_SWEEP", 1e6)  # as on a very large model
    got = solve(graph, "MAR", "gibbs", time_limit=0.0)
    assert got.status is Status.TIME_LIMIT
    assert "There was time for 2 of 16 chains only." in got.message
    assert np.all(np.isfinite(got.marginals.values))
    assert "There was time" not in solve(graph, "MAR", "gibbs(chains=1, samples=10)", time_limit=0.0).message


def test_a_call_of_the_kernel_ends_with_the_time_that_is_left(driven_time) -> None:
    model = MoveModel(compile(GRAPHS["grid"]))
    context = SolveContext(clock=Clock(0.01))
    moves = gibbs.SingleMoves(model, np.zeros((2, 9), np.int64), 1, context)
    moves._cost = 0.002
    driven_time.seconds += 0.005
    assert moves._draws_per_call(1) == 2
    assert moves._draws_per_call(1, 0.003) == 1


def test_chains_that_hardly_vary_are_far_apart_without_a_warning() -> None:
    """The ratio of their variances is larger than any float."""
    total = np.zeros((2, 2, 1))
    total[:, 1] = 10.0
    squares = np.where(total > 0.0, total, 1e-318)
    assert np.isinf(split_r_hat(total, squares, 10)).all()


def test_a_continued_run_leaves_out_its_first_draws() -> None:
    """A run that ends at 64 draws and continues to 256 makes the draws of one run, and uses the last 7/8 of them."""
    graph, context = GRAPHS["grid"], SolveContext(clock=Clock(), seed=3)
    solver = gibbs.LongGibbs(chains=4, samples=64)
    solver.run_one(graph, Task.MAR, context)
    object.__setattr__(solver, "samples", 256)
    found = solver.run_one(graph, Task.MAR, context)
    whole = gibbs.Gibbs(chains=4, samples=256).run_one(graph, Task.MAR, context)
    assert found.iterations == whole.iterations == 256
    assert found.marginals is not None
    assert whole.marginals is not None
    distance = np.abs(found.marginals.values - whole.marginals.values).max()
    assert 0.0 < distance < 0.05
