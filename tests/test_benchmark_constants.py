"""Halving and doubling of constants: what is changed, where it is set, and how changes are read."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks._constant_runs import EXERCISES, RUNS, runs_of
from benchmarks.constants import change, choices, is_compiled, scaled, set_constant
from equifactor.solvers.regions import loop_bp_kernels
from equifactor.solvers.sampling import blocks, chain_driver, diagnostics


@pytest.mark.parametrize(
    ("value", "half", "double"),
    [(6, 3, 12), (1, 1, 2), (0.8, 0.4, 1.0), (1.5, 1.25, 2.0), (30.0, 15.0, 60.0), ((4, 0.1), (2, 0.05), (8, 0.2))],
)
def test_whole_numbers_stay_whole_and_shares_below_one(value: object, half: object, double: object) -> None:
    assert scaled(value, 0.5) == half
    assert scaled(value, 2.0) == double


def test_a_constant_is_found_by_its_name_and_by_its_folder() -> None:
    assert list(choices("sampling.blocks._COVERS")) == [("sampling.blocks", "_COVERS")]
    assert ("sampling.blocks", "_COVERS") in list(choices("sampling"))
    assert not any(name == "_STUDENT" for _, name in choices("sampling"))  # quantiles are facts


def test_every_module_of_the_table_has_a_run() -> None:
    assert {run for runs in EXERCISES.values() for run in runs} == set(RUNS)
    assert runs_of("sampling.gibbs") == ["gibbs"]
    assert runs_of("search.local_search") == ["local-search"]


def test_a_constant_is_set_where_it_was_imported() -> None:
    before = diagnostics.R_HAT_LIMIT
    set_constant(diagnostics, "R_HAT_LIMIT", 2.0)
    try:
        assert vars(chain_driver)["R_HAT_LIMIT"] == 2.0
    finally:
        set_constant(diagnostics, "R_HAT_LIMIT", before)
    assert vars(chain_driver)["R_HAT_LIMIT"] == before


def test_constants_of_kernels_are_known() -> None:
    assert is_compiled("_WIDE", loop_bp_kernels)
    assert not is_compiled("_COVERS", blocks)


def test_a_change_is_a_mean_log_ratio() -> None:
    old = np.array([[1.0, 2.0, np.inf], [1.0, 2.0, np.inf]])
    mean, spread = change(np.array([2.0, 4.0, np.inf]), old)
    assert (mean, spread) == pytest.approx((np.log(2.0), 0.0))
    assert change(np.array([1.0, np.inf, np.inf]), old) == (np.inf, 0.0)
    assert change(np.array([1.0, 2.0, 3.0]), old) == (-np.inf, 0.0)
    assert change(np.array([1e-9, 1e-7]), np.array([[1e-8, 1e-8]]), 1e-3) == (0.0, 0.0)
