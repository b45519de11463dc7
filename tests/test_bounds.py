"""Bounds hold: lower <= truth <= upper, for every solver with bounds, on random graphs full of zeros and extremes.

The truth is enumerated here, by numpy alone. The tolerance for rounding is ROUNDING times the sum over all factors of
the largest |log entry|, which bounds the error of adding logs. No possible graph may be reported as impossible.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from equifactor import FactorGraph, Result, Status, solve
from equifactor.solvers import solver_names
from equifactor.solving.registry import solver_class

ROUNDING = 1e-13
PROVEN = 1e-6  # `optimal` allows a relative gap of 1e-7 between bound and score
LIMITS = (1, 2, 10, 100, 1000)

SUMS = (
    "trw(iterations={n})",
    "trw(iterations={n}, damping=0, forests=3)",
    "meanfield(iterations={n})",
    "mini-buckets(iterations={n}, entries=4)",
    "search-sum",
    "exact",
    "auto",
)
MAXIMA = (
    "mplp(iterations={n})", "srmp(iterations={n})", "srmp(iterations={n}, cycles)", "branch(sweeps={n})",
    "branch(sweeps={n}, entries=1)", "local-search(iterations={n})", "beam(width={n})", "best-first(steps={n})",
    "bp(iterations={n})", "exact", "auto", "toulbar2",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A graph with its answers."""

    graph: FactorGraph
    log_z: float
    best: float
    slack: float  # the tolerance for rounding


def random_case(rng: np.random.Generator) -> Case:
    """Return a graph of up to 256 joint states with duplicate scopes, zeros and magnitudes from 1e-300 to 1e300."""
    card = rng.integers(1, 4, size=rng.integers(1, 6), endpoint=True)
    while card.prod() > 256:
        card = card[1:]
    zeros = rng.choice([0.0, 0.1, 0.3, 0.6])
    digits = rng.choice([0.0, 0.5, 3.0, 30.0, 300.0])
    factors: list[tuple[list[int], np.ndarray]] = []
    for _ in range(rng.integers(1, 8, endpoint=True)):
        arity = min(len(card), int(rng.integers(1, 4, endpoint=True)))
        scope = rng.choice(len(card), arity, replace=False)
        if factors and rng.random() < 0.2:
            scope = rng.permutation(factors[rng.integers(len(factors))][0])
        table = 10.0 ** rng.uniform(-digits, digits, size=card[scope])
        table[rng.random(table.shape) < zeros] = 0.0
        factors.append((scope.tolist(), table))
    return with_answers(card, factors)


def with_answers(card: np.ndarray, factors: list[tuple[list[int], np.ndarray]]) -> Case:
    """Return the graph of these tables with ln Z and the best log score, by enumeration."""
    scores = []
    with np.errstate(divide="ignore"):
        logs = [np.log(table) for _, table in factors]
    for states in itertools.product(*map(range, card.tolist())):
        scores.append(sum(log[tuple(states[i] for i in scope)] for log, (scope, _) in zip(logs, factors, strict=True)))
    best = float(max(scores))
    log_z = best if best == -math.inf else best + math.log(math.fsum(math.exp(s - best) for s in scores))
    size = sum(np.abs(log[np.isfinite(log)]).max(initial=0.0) for log in logs)
    return Case(FactorGraph(card.tolist(), factors), log_z, best, ROUNDING * (10.0 + float(size)))


def complaint(got: Result, truth: float, slack: float) -> str:
    """Return a sentence about the defect of a result, or empty text."""
    numbers = getattr(got, "log_z", None), getattr(got, "log_score", None), got.lower_bound, got.upper_bound
    if any(value is not None and math.isnan(value) for value in numbers):
        return "NaN"
    if got.status is Status.ZERO_PROBABILITY:
        return "" if truth == -math.inf else "called impossible"
    if got.lower_bound is not None and not got.lower_bound <= truth + slack:
        return "the lower bound is too high"
    if got.upper_bound is not None and not got.upper_bound >= truth - slack:
        return "the upper bound is too low"
    if got.lower_bound is not None and got.upper_bound is not None and got.lower_bound > got.upper_bound + slack:
        return "the bounds cross"
    if hasattr(got, "log_score") and not got.log_score <= truth + slack:
        return "the score is higher than the best"
    if got.status in (Status.EXACT, Status.OPTIMAL):
        value = got.log_z if not hasattr(got, "log_score") else got.log_score
        if value is None or not abs(value - truth) <= slack + PROVEN * max(1.0, abs(truth)):
            return "called exact"
    return ""


def installed(spec: str) -> bool:
    name = spec.split("(")[0]
    assert name in solver_names()
    return solver_class(name).missing() is None


def check(count: int, seed: int) -> int:
    """Check every solver on `count` graphs with random limits and seeds; return the number of checked results."""
    rng = np.random.default_rng(seed)
    wrong, looked_at = [], 0
    for number in range(count):
        case = random_case(rng)
        for task, specs, truth in (("PR", SUMS, case.log_z), ("MAP", MAXIMA, case.best)):
            for spec in filter(installed, specs):
                solver = spec.format(n=rng.choice(LIMITS))
                got = solve(case.graph, task, solver, seed=int(rng.integers(4)))
                found = complaint(got, truth, case.slack)
                looked_at += 1
                if found:
                    wrong.append(f"graph {number}, {task} by {solver}: {found}; truth {truth!r}, {got}")
    assert not wrong, "\n".join([f"{len(wrong)} of {looked_at} results are wrong", *wrong[:20]])
    return looked_at


def test_bounds_hold() -> None:
    assert check(80, seed=1) >= 80 * 18


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["bp(engine=torch, iterations=10)", "fe-nbp", "fe-nbp(tighten=5)"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bounds_of_tensors_are_on_the_model_that_was_given(solver: str, dtype: Literal["float32", "float64"]) -> None:
    rng = np.random.default_rng(3)
    cases = [random_case(rng) for _ in range(150)]
    for case, got in zip(cases, solve([c.graph for c in cases], "MAP", solver, dtype=dtype), strict=True):
        assert not complaint(got, case.best, case.slack)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_bounds_hold_on_20_000_graphs(seed: int) -> None:
    check(1000, seed)
