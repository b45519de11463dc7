"""The ladder for marginals and ln Z beyond exact inference: its solvers, its judgement, its time limit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from equifactor import generators, plan, solve
from equifactor.answers import Marginals
from equifactor.base.budget import Seconds
from equifactor.base.clock import Clock
from equifactor.base.status import Status, Task
from equifactor.factors.lowered_graph import lower
from equifactor.solvers import Estimate, SolveContext
from equifactor.solvers.auto import sum_portfolio
from equifactor.solvers.auto.chooser import Auto
from equifactor.solvers.auto.ladder_answers import LadderAnswer, best_log_z, best_marginals
from equifactor.solvers.auto.sum_ladder import LadderLimits, SumLadder
from equifactor.solvers.bounds.mini_buckets import WeightedMiniBuckets
from equifactor.solvers.messages.bp import BeliefPropagation
from equifactor.solvers.regions.bounded_regions import Regions
from equifactor.solvers.sampling.blocks import BlockSampling
from equifactor.solvers.sampling.gibbs import Gibbs
from equifactor.solving.solver import Solver

_PTR = 2 * np.arange(201)
_TINY = 2.0**-17  # GiB: 8 KiB of tables


def _marginals(p: np.ndarray) -> Marginals:
    return Marginals(np.stack((1 - p, p), axis=1).ravel(), _PTR)


def _answer(solver: Solver, p: np.ndarray, error: float | None = None) -> LadderAnswer:
    errors = None if error is None else _marginals(np.full(200, error))
    if errors is not None:
        errors = Marginals(np.full(400, error), _PTR)
    return LadderAnswer(
        solver, Estimate(status=Status.TIME_LIMIT, marginals=_marginals(p), standard_errors=errors), 1.0
    )


def _off(answer: Estimate, truth: np.ndarray) -> float:
    assert answer.marginals is not None
    return float(np.sqrt(np.mean((answer.marginals.values - _marginals(truth).values) ** 2)))


@pytest.mark.parametrize("bias", [0.0, 0.003, 0.02, 0.2])
@pytest.mark.parametrize("error", [0.002, 0.02, 0.1])
def test_a_mix_is_better_than_its_parts(bias: float, error: float) -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.3, 0.7, 200)
    sampled = _answer(BlockSampling(), truth + error * rng.standard_normal(200), error)
    other = _answer(Regions(), truth + bias * rng.standard_normal(200))
    answer, name, said = best_marginals([other, sampled])
    best = min(_off(sampled.estimate, truth), _off(other.estimate, truth))
    assert _off(answer, truth) <= 1.05 * best + 0.2 * error
    assert "The root mean square error" in said
    assert answer.stats["error_estimate"] <= 1.5 * max(best, 0.5 * error) + 1e-3
    if bias > 10 * error:
        assert name == "blocks"


@pytest.mark.parametrize("solver", [Gibbs(), BlockSampling()])
def test_the_likely_errors_of_samplers_are_the_weights(solver: Solver) -> None:
    """Stated errors are cautious, so a mean has the weights of the errors that a sampler expects if it has mixed."""
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.3, 0.7, 200)

    def distance(likely: float, stated: float, bias: float) -> float:
        found = _answer(solver, truth + 0.01 * rng.standard_normal(200), stated)
        sampled = replace(found, estimate=replace(found.estimate, stats={"likely_share": likely}))
        other = _answer(Regions(), truth + bias * rng.standard_normal(200))
        return _off(best_marginals([other, sampled])[0], truth)

    assert distance(1.0, 0.01, 0.0) < 0.0015
    assert distance(0.11, 0.03, 0.05) < 0.0115


def test_without_a_sampler_the_better_method_answers() -> None:
    p = np.full(200, 0.5)
    answer, name, _ = best_marginals([_answer(BeliefPropagation(), p), _answer(Regions(), p + 0.1)])
    assert name == "regions and bp"  # BP has not settled, so nothing shows which of the two is better.
    assert _off(answer, p + 0.05) < 1e-12


def test_ln_z_stays_within_the_bounds() -> None:
    answers = [
        LadderAnswer(BeliefPropagation(), Estimate(status=Status.CONVERGED, log_z=5.0), 1.0),
        LadderAnswer(
            WeightedMiniBuckets(), Estimate(status=Status.TIME_LIMIT, log_z=2.5, lower_bound=2.0, upper_bound=3.0), 1.0
        ),
        LadderAnswer(BlockSampling(), Estimate(status=Status.TIME_LIMIT, log_z=3.2, log_z_error=0.1), 1.0),
    ]
    answer, _, said = best_log_z(answers)
    assert answer.log_z == 3.0
    assert (answer.lower_bound, answer.upper_bound) == (2.0, 3.0)
    assert "proven to be within 1" in said


def test_marginals_of_a_strip_that_elimination_does_not_fit(driven_time) -> None:
    driven_time.tick = 1e-3
    model = generators.ising_strip(10, 30, coupling_std=0.4, seed=2)
    solver = f"auto(memory_limit={_TINY})"
    short, long = (solve(model.graph, solver=solver, time_limit=limit) for limit in (0.3, 3.0))
    off = [np.abs(r.marginals.values - model.marginals.values).mean() for r in (short, long)]
    assert off[1] < 0.02
    assert off[1] <= off[0] + 0.01
    assert "Solvers run: " in long.message
    assert long.standard_errors is not None
    assert long.stats["error_estimate"] < 0.05


def test_ln_z_of_a_planar_model_within_certified_bounds(driven_time) -> None:
    driven_time.tick = 5e-4
    model = generators.planar_ising(14, 14, coupling_std=0.5, seed=1)
    found = solve(model.graph, "PR", f"auto(memory_limit={_TINY})", time_limit=3.0)
    assert found.lower_bound is not None
    assert found.upper_bound is not None
    assert found.lower_bound <= model.log_z <= found.upper_bound
    assert abs(found.log_z - model.log_z) < max(0.5, 4 * (found.log_z_error or 0.0))


def test_a_cutset_of_few_states_is_summed_over(driven_time) -> None:
    model = generators.ising_strip(9, 12, seed=1)
    found = solve(model.graph, solver="auto(memory_limit=1e-5)", time_limit=10.0)
    assert found.status == "exact"
    np.testing.assert_allclose(found.marginals.values, model.marginals.values, atol=1e-9)
    assert found.log_z == pytest.approx(model.log_z, abs=1e-9)


def test_graphs_of_a_batch_share_the_time(driven_time) -> None:
    driven_time.tick = 1e-3
    graphs = generators.ising_grid(14, 14, count=3, seed=3)
    found = solve(graphs, solver=f"auto(memory_limit={_TINY})", time_limit=1.5)
    assert driven_time.seconds < 1.8
    assert all(hasattr(r, "marginals") and r.stats["ladder"] for r in found)


def test_seconds_count_without_a_time_limit(driven_time) -> None:
    driven_time.tick = 1e-3
    graph = generators.ising_grid(14, 14, seed=3)
    found = solve(graph, solver=f"auto(memory_limit={_TINY}, seconds=1)")
    assert driven_time.seconds < 1.5
    assert found.marginals is not None
    assert not math.isnan(found.stats["error_estimate"])


def test_two_cores_sample_at_the_same_time(driven_time) -> None:
    driven_time.tick = 4e-4
    model = generators.ising_strip(10, 20, seed=4)
    found = solve(model.graph, solver=f"auto(memory_limit={_TINY}, cores=2)", time_limit=1.5)
    assert found.message.count("blocks ") >= 2
    assert np.abs(found.marginals.values - model.marginals.values).mean() < 0.05


def test_ln_z_of_several_samplers_is_pooled_and_a_close_answer_may_be_close_by_chance() -> None:
    def sampler(log_z: float, error: float) -> LadderAnswer:
        return LadderAnswer(BlockSampling(), Estimate(status=Status.TIME_LIMIT, log_z=log_z, log_z_error=error), 1.0)

    pooled = best_log_z([sampler(1.0, 0.1), sampler(1.2, 0.1), sampler(9.0, 10.0)])[0]
    assert pooled.log_z == pytest.approx(1.1, abs=0.01)
    assert 0.05 < pooled.log_z_error < 0.1
    apart = best_log_z([sampler(1.0, 0.01), sampler(3.0, 0.01)])[0]
    assert apart.log_z_error > 0.5
    near = best_log_z(
        [LadderAnswer(BeliefPropagation(), Estimate(status=Status.CONVERGED, log_z=1.0), 1.0), sampler(1.0, 0.2)]
    )[0]
    assert near.log_z_error > 0.05


def test_a_plan_that_ran_out_of_time_is_not_called_too_wide() -> None:
    unfinished = plan(generators.random_tree(500, seed=0), memory_limit=4.0, most_work=1.0)
    refusal = Auto()._refusal(unfinished, Task.MAR, 1, "", SolveContext())
    assert str(refusal) == "there was no time to find an elimination order"


def test_a_network_that_leaves_no_time_runs_only_where_blocks_cannot_start(
    driven_time: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sum_portfolio, "network_seconds", lambda graphs, clock: 0.9 * clock.left)
    quick = LadderAnswer(BeliefPropagation(), Estimate(status=Status.ITERATION_LIMIT), 0.01)
    for side, needs_none in (5, True), (30, False):
        graph, context = generators.ising_grid(side, side, seed=0), SolveContext(clock=Clock(0.1))
        ladder = SumLadder(graph, lower(graph), Task.MAR, context, LadderLimits(cores=1, memory=1.0), looked=quick)
        assert ladder.needs_no_network(context.clock, quick) is needs_none


def test_a_run_that_was_cut_off_is_not_listed_as_run() -> None:
    graph = generators.ising_grid(3, 3, seed=0)
    nothing, found = Estimate(status=Status.TIME_LIMIT), Estimate(status=Status.TIME_LIMIT, lower_bound=1.0)
    ladder = SumLadder(graph, lower(graph), Task.PR, SolveContext(), LadderLimits(cores=1, memory=1.0))
    ladder.answers += [
        LadderAnswer(Regions(), nothing, 0.5),  # cut off because a kernel was missing
        LadderAnswer(BlockSampling(), nothing, 0.25),  # cut off as well, and answered by another run
        LadderAnswer(WeightedMiniBuckets(), found, 2.0),
        LadderAnswer(BlockSampling(), replace(found, log_z=2.0), 3.0),
    ]
    ladder.unready += ["regions", "blocks", "mini-buckets", "conditioning"]
    message = ladder._described(replace(found, log_z=2.0, log_z_error=0.1), "blocks", "").message
    assert "Solvers run: mini-buckets 2 s, blocks 3 s." in message
    assert "were not ready in time: conditioning, regions." in message


@pytest.mark.parametrize("task", ["MAR", "PR", "MAP"])
def test_a_model_too_large_to_be_planned_in_time_is_not_planned(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = generators.ising_grid(8, 8, seed=0)
    monkeypatch.setattr(Seconds, "PLAN_START", 1e6)  # as on a model with very many edges
    found = solve(graph, task, "auto", time_limit=0.5)
    assert "no time to find an elimination order" in found.message
    assert solve(graph, task, "auto", time_limit=None).status.solved
