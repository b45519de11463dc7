"""ln Z of `auto` always has a standard error or bounds, however short the time limit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from equifactor import FactorGraph, Status, solve
from equifactor.base.budget import Refusal
from equifactor.factors.lowered_graph import lower_all
from equifactor.generators import ising_grid, random_graph
from equifactor.solvers import Estimate
from equifactor.solvers.auto.crude_bounds import crude_bounds, with_error

GRAPHS = {
    "grid": ising_grid(3, 3, seed=0),
    "evidence": random_graph(7, 12, arity=(1, 3), card=(2, 4), seed=1).condition({0: 1, 5: 0}),
    "zeros": random_graph(8, 14, arity=(2, 3), card=(2, 3), zeros=0.15, seed=3),
    "no factors": FactorGraph([2, 3], []),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_ln_z_is_between_the_bounds(name: str) -> None:
    lower, upper = crude_bounds(GRAPHS[name])
    log_z = solve(GRAPHS[name], "PR", "exact").log_z
    assert lower - 1e-9 <= log_z <= upper + 1e-9
    assert math.isfinite(lower) == (name != "zeros")


def test_only_an_estimate_without_error_and_bounds_gets_them() -> None:
    form = lower_all([GRAPHS["grid"]], "sum")[0]
    known = Estimate(status=Status.TIME_LIMIT, log_z=9.0, log_z_error=0.1)
    assert with_error(known, form) == (known, "")
    bare, said = with_error(Estimate(status=Status.TIME_LIMIT, log_z=1e6), form)
    assert bare.log_z == bare.upper_bound
    assert "no time to estimate" in said
    zeros, said = with_error(Estimate(status=Status.TIME_LIMIT, log_z=1.0), lower_all([GRAPHS["zeros"]], "sum")[0])
    assert zeros.log_z_error == math.inf
    assert "not known" in said
    assert with_error(known, Refusal("too large"))[0] is known
    assert with_error(Estimate(status=Status.TIME_LIMIT, log_z=1.0), Refusal("too large"))[0].log_z_error == math.inf


@pytest.mark.parametrize("task", ["MAR", "PR"])
@pytest.mark.parametrize("tick", [1e-4, 2e-3, 0.05, 1.0])
def test_auto_gives_an_error_or_bounds(task: str, tick: float, driven_time) -> None:
    driven_time.tick = tick
    graph = ising_grid(12, 12, coupling_std=2.0, seed=1)
    got = solve(graph, task, "auto(memory_limit=1e-6)", time_limit=0.5)
    if not hasattr(got, "log_z"):  # Marginals that are late leave it out.
        assert task == "MAR"
        assert got.message
        return
    bounded = got.lower_bound is not None and got.upper_bound is not None
    assert bounded or math.isfinite(got.log_z_error)
    truth = solve(graph, "PR", "exact").log_z
    if bounded:
        assert got.lower_bound - 1e-6 <= truth <= got.upper_bound + 1e-6
    if got.log_z_error is not None:
        assert abs(got.log_z - truth) <= 3 * got.log_z_error
    assert np.isfinite(got.log_z)
