"""The first answers of `auto` for marginals if exact does not fit: BP, and the network if there is time for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from equifactor import FactorGraph, Task, metrics, solve
from equifactor.base.clock import Clock
from equifactor.base.status import Status
from equifactor.generators import ising_grid
from equifactor.graph.marginals import Marginals
from equifactor.solvers.auto import sum_portfolio
from equifactor.solvers.auto.ladder_answers import LadderAnswer, best_marginals
from equifactor.solving.estimate import Estimate
from equifactor.solving.solver import SolveContext

WEAK = ising_grid(6, 6, coupling_std=0.3, seed=1)
METHODS = "bp", "fe-net", "regions"
STRONG = ising_grid(6, 6, coupling_std=5.0, field_std=0.5, seed=3)  # frustrated, so that BP oscillates


def _quick(
    graphs: Sequence[FactorGraph],
    task: str = "MAR",
    time_limit: float | None = None,
    dtype: Literal["float32", "float64"] = "float64",
) -> list[list[LadderAnswer]]:
    context = SolveContext(clock=Clock(time_limit), dtype=dtype)
    quick = sum_portfolio.quick_answers(graphs, Task(task), context)
    return sum_portfolio.first_answers(graphs, quick, Task(task), context)


def _names(answers: list[LadderAnswer]) -> list[str]:
    return [answer.solver.name for answer in answers]


def test_bp_and_the_network() -> None:
    exact = solve(STRONG, "MAR", "exact").marginals
    [answers], bp = _quick([STRONG]), solve(STRONG, "MAR", sum_portfolio.bp_tries()[0])
    assert bp.status is Status.ITERATION_LIMIT
    assert _names(answers) == ["bp", "fe-net"]
    estimate, chosen, _ = best_marginals(answers)
    assert chosen == "fe-net"
    predicted = answers[1].estimate.marginal_errors
    assert estimate.marginal_errors is not None
    assert predicted is not None
    np.testing.assert_array_equal(estimate.marginal_errors.values, predicted.values)
    assert metrics.kl(exact, estimate.marginals) < 0.5 * metrics.kl(exact, bp.marginals)


def test_ln_z_is_that_of_bp() -> None:
    [[bp, network]], [[log_z]] = _quick([STRONG]), _quick([STRONG], "PR")
    assert network.estimate.log_z is None
    assert bp.estimate.log_z == log_z.estimate.log_z


def test_where_bp_does_not_converge_its_mean_with_a_damped_run_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sum_portfolio, "_more_runs", lambda *_: [])
    exact = solve(STRONG, "MAR", "exact").marginals
    runs = [solve(STRONG, "MAR", f"bp(damping={d}, iterations={n})").marginals for d, n in ((0.5, 1000), (0.9, 50))]
    bp = _quick([STRONG])[0][0].estimate
    assert bp.marginals is not None
    np.testing.assert_allclose(bp.marginals.values, 0.25 * runs[0].values + 0.75 * runs[1].values, atol=1e-9)
    assert metrics.kl(exact, bp.marginals) < min(metrics.kl(exact, run) for run in runs)
    assert "0.9" in bp.message


@pytest.mark.parametrize("task", ["MAR", "PR"])
def test_single_precision(task: str) -> None:
    bp = _quick([WEAK], task, dtype="float32")[0][0].estimate  # residual schedules need double precision
    assert bp.status is Status.CONVERGED
    assert bp.log_z == pytest.approx(_quick([WEAK], task)[0][0].estimate.log_z, rel=1e-4)


def test_a_batch_takes_each_graph_by_itself() -> None:
    found = _quick([WEAK, STRONG, WEAK])
    assert [_names(answers) for answers in found] == [["bp", "fe-net"]] * 3
    alone = solve(STRONG, "MAR", "fe-net").marginals
    marginals = found[1][1].estimate.marginals
    assert marginals is not None
    np.testing.assert_allclose(marginals.values, alone.values, rtol=0, atol=1e-6)


@pytest.mark.parametrize("late", [Status.TIME_LIMIT, Status.INTERRUPTED])
@pytest.mark.parametrize("steps", [7, 8])
def test_a_network_counts_after_half_of_its_steps(late: Status, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.solvers.learned.learned_solver import NeuralSolver

    run = NeuralSolver.run

    def cut(self, graphs, task, context):
        return [replace(e, status=late, iterations=steps) for e in run(self, graphs, task, context)]

    monkeypatch.setattr(NeuralSolver, "run", cut)
    assert _names(_quick([STRONG])[0]) == (["bp", "fe-net"] if steps == 8 else ["bp"])


def test_a_network_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.solvers.learned.learned_solver import NeuralSolver

    monkeypatch.setattr(NeuralSolver, "run", lambda self, graphs, *_: [Estimate(status=Status.TIME_LIMIT)])
    [answers] = _quick([STRONG])
    assert _names(answers) == ["bp"]
    assert answers[0].estimate.marginals is not None


def test_too_large_for_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sum_portfolio, "_MEMORY", 1000)
    assert _names(_quick([STRONG])[0]) == ["bp"]


def test_the_network_does_not_run_when_little_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.solvers.learned.learned_solver import NeuralSolver

    monkeypatch.setattr(NeuralSolver, "run", lambda *_: pytest.fail("the network ran"))
    monkeypatch.setattr(Clock, "left", property(lambda _: 1e-5))
    assert _names(_quick([STRONG], time_limit=100)[0]) == ["bp"]


def test_a_network_gets_more_of_a_short_time() -> None:
    context = SolveContext(clock=Clock(100.0))
    large = [ising_grid(30, 30, seed=0)]
    first, later = (sum_portfolio.seconds_for_first(large, Task.MAR, context, left) / left for left in (0.03, 10.0))
    assert first == pytest.approx(0.8)
    assert later == pytest.approx(0.3)
    assert sum_portfolio.seconds_for_first(large, Task.PR, context, 0.03) == pytest.approx(0.009)


@pytest.mark.parametrize(("settled", "chosen"), [(True, "regions"), (False, "fe-net and regions")])
def test_regions_are_preferred_where_bp_settles(settled: bool, chosen: str) -> None:
    from equifactor.solving.registry import parse_solver

    status = Status.CONVERGED if settled else Status.ITERATION_LIMIT  # The network has made all its steps.
    found = {name: solve(WEAK, "MAR", f"bp(iterations={n})").marginals for n, name in enumerate(METHODS, start=1)}
    answers = [
        LadderAnswer(parse_solver(name), Estimate(status=status, marginals=marginals), 0.1)
        for name, marginals in found.items()
    ]
    estimate, name, said = best_marginals(answers)
    assert name == chosen
    assert estimate.marginals is not None
    assert estimate.marginal_errors is None
    assert "not known" in said
    mean = 0.5 * (found["fe-net"].values + found["regions"].values)
    np.testing.assert_allclose(estimate.marginals.values, found["regions"].values if settled else mean)
    ptr, share = WEAK.structure.state_ptr, 1.0 if settled else 0.5
    predicted = replace(answers[1].estimate, marginal_errors=Marginals(np.full(72, 0.01), ptr))
    errors = best_marginals([answers[0], replace(answers[1], estimate=predicted), answers[2]])[0].marginal_errors
    apart = np.abs(found["fe-net"].values - found["regions"].values)
    assert errors is not None
    np.testing.assert_allclose(errors.values, 0.01 + share * apart)  # Half of the sum over both states.


def test_a_sampler_that_is_stuck_has_larger_errors() -> None:
    from equifactor.solving.registry import parse_solver

    bp, gibbs = solve(WEAK, "MAR", "bp"), solve(WEAK, "MAR", "gibbs(samples=20, burn_in=5)")
    regions = LadderAnswer(parse_solver("regions"), Estimate(status=Status.CONVERGED, marginals=bp.marginals), 0.1)
    stated = []
    for r_hat in (1.0, 3.0):
        sampled = Estimate(
            status=Status.TIME_LIMIT,
            marginals=gibbs.marginals,
            standard_errors=gibbs.standard_errors,
            stats={"max_r_hat": r_hat},
        )
        estimate, _, _ = best_marginals([regions, LadderAnswer(parse_solver("gibbs"), sampled, 0.1)])
        assert estimate.marginals is not None
        assert estimate.standard_errors is not None
        assert estimate.standard_errors.values.min() > 0.0
        stated.append(estimate.stats["error_estimate"])
    assert stated[1] > 1.2 * stated[0]


def test_chains_that_nearly_agree_promise_to_mix() -> None:
    from equifactor.solving.registry import parse_solver

    found = Estimate(status=Status.TIME_LIMIT, stats={"max_r_hat": 1.5})
    short = LadderAnswer(parse_solver("gibbs"), found, 0.1)
    assert short.r_hat_after(0.1) == pytest.approx(1.5)
    assert short.r_hat_after(1.25) == pytest.approx(math.sqrt(1.1))


def test_the_work_of_the_network_counts_squares_without_diagonals() -> None:
    from equifactor.base.budget import Seconds
    from equifactor.solvers.auto.sum_portfolio import _loop_work

    halves = [([i, 20 + j], np.ones((2, 2))) for i in range(20) for j in range(20)]
    pairs = [([i, j], np.ones((2, 2))) for i in range(40) for j in range(i)]
    assert _loop_work(FactorGraph([2] * 40, halves).structure) == pytest.approx(190**2 * Seconds.NETWORK_SQUARE)
    assert _loop_work(FactorGraph([2] * 40, pairs).structure) == 0.0  # Every square has diagonals.


def test_a_sampler_that_another_contradicts_has_a_large_error_of_ln_z() -> None:
    """Blocks whose chains are in one mode state a small error of ln Z, and gibbs has found another mode."""
    from equifactor.solving.registry import parse_solver

    ptr, errors = WEAK.structure.state_ptr, np.full(72, 0.01)
    here, there = (Marginals(np.tile([p, 1 - p], 36), ptr) for p in (0.9, 0.4))
    network = Estimate(status=Status.ITERATION_LIMIT, marginals=here)
    answers = [LadderAnswer(parse_solver("fe-net"), network, 0.1)]
    for name, r_hat, marginals, log_z in (("gibbs", 1.0, here, None), ("blocks", 3.0, there, 7.0)):
        found = Estimate(
            status=Status.TIME_LIMIT,
            marginals=marginals,
            standard_errors=Marginals(errors if name == "gibbs" else 5 * errors, ptr),
            log_z=log_z,
            log_z_error=None if log_z is None else 0.1,
            stats={"max_r_hat": r_hat},
        )
        answers.append(LadderAnswer(parse_solver(name), found, 0.1))
    estimate, _, _ = best_marginals(answers)
    assert estimate.log_z == 7.0
    assert estimate.log_z_error is not None
    assert estimate.log_z_error > 20 * 0.1


def test_an_exact_ln_z_has_no_error() -> None:
    """A sum over a cutset knows ln Z, and its marginals come from few of its states."""
    from equifactor.solving.registry import parse_solver

    bp, ptr = solve(STRONG, "MAR", "bp"), STRONG.structure.state_ptr
    drawn = Estimate(
        status=Status.TIME_LIMIT,
        marginals=Marginals(np.tile([0.5, 0.5], 36), ptr),
        standard_errors=Marginals(np.full(72, 0.18), ptr),
        log_z=40.0,
        lower_bound=40.0,
        upper_bound=40.0,
    )
    messages = Estimate(status=Status.ITERATION_LIMIT, marginals=bp.marginals, log_z=bp.log_z)
    answers = [LadderAnswer(parse_solver("bp"), messages, 0.1), LadderAnswer(parse_solver("conditioning"), drawn, 0.1)]
    estimate, _, _ = best_marginals(answers)
    assert (estimate.log_z, estimate.log_z_error) == (40.0, 0.0)
