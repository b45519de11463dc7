"""Halving and doubling of constants: what is changed, where it is set, and how changes are read."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks._constant_runs import EXERCISES, RUNS, runs_of
from benchmarks.constants import choices, drawn_levels, fitted, home, is_compiled, is_read, scaled, set_constant
from equifactor.solvers.sampling import chain_driver, diagnostics


@pytest.mark.parametrize(
    ("value", "half", "double"),
    [(6, 3, 12), (1, 1, 2), (0.8, 0.4, 1.0), (1.5, 1.25, 2.0), (30.0, 15.0, 60.0), ((4, 0.1), (2, 0.05), (8, 0.2))],
)
def test_whole_numbers_stay_whole_and_shares_below_one(value: object, half: object, double: object) -> None:
    assert scaled(value, 0.5) == half
    assert scaled(value, 2.0) == double


def test_a_constant_is_found_by_its_name_and_by_its_folder() -> None:
    assert list(choices("sampling.blocks._COVERS")) == ["sampling.blocks._COVERS"]
    assert "sampling.blocks._COVERS" in list(choices("sampling"))
    assert not any(name.endswith("._STUDENT") for name in choices("sampling"))  # quantiles are facts


def test_every_module_of_the_table_has_a_run() -> None:
    assert {run for runs in EXERCISES.values() for run in runs} == set(RUNS)
    assert runs_of("sampling.gibbs") == ["gibbs"]
    assert runs_of("search.local_search") == ["local-search"]


def test_a_constant_is_set_where_it_was_imported() -> None:
    before = diagnostics.R_HAT_LIMIT
    set_constant("sampling.diagnostics.R_HAT_LIMIT", 2.0)
    try:
        assert vars(chain_driver)["R_HAT_LIMIT"] == 2.0
    finally:
        set_constant("sampling.diagnostics.R_HAT_LIMIT", before)
    assert vars(chain_driver)["R_HAT_LIMIT"] == before


def test_constants_of_kernels_are_known() -> None:
    for constant in ("regions.loop_bp_kernels._WIDE", "sampling.blocks._COVERS"):
        home(constant)
    assert is_compiled("regions.loop_bp_kernels._WIDE")
    assert not is_compiled("sampling.blocks._COVERS")


def test_a_constant_is_read_by_the_functions_of_its_module() -> None:
    def other() -> object:
        return _COVERS  # type: ignore[name-defined]  # noqa: F821

    module, _ = home("sampling.blocks._COVERS")
    own = {code for code in vars(module.BlockSampling).values() if hasattr(code, "__code__")}
    assert is_read("sampling.blocks._COVERS", {function.__code__ for function in own})
    assert not is_read("sampling.blocks._COVERS", {other.__code__})


def test_the_design_changes_a_quarter_each_way_and_repeats() -> None:
    rows = [drawn_levels(["a", "b"], "gibbs", n, {"c": 1}) for n in range(400)]
    assert rows[7] == drawn_levels(["a", "b"], "gibbs", 7, {"c": 1})
    assert all(row["c"] == 1 for row in rows)
    for level, share in ((-1, 0.25), (0, 0.5), (1, 0.25)):
        assert np.mean([row["a"] == level for row in rows]) == pytest.approx(share, abs=0.1)
    assert any(row["a"] != row["b"] for row in rows)


def test_the_effects_of_constants_changed_together_are_separated() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for n in range(400):
        levels = drawn_levels(["a", "b"], "gibbs", n, {})
        log = 0.5 * (levels["a"] == -1) - 0.2 * (levels["b"] == 1) + 0.1 * rng.standard_normal() + n % 3
        rows.append({"case": str(n % 3), "levels": levels, "result": float(np.exp(log))})
    found = fitted(rows, ["a", "b", "never changed"], "result")
    assert set(found) == {("a", -1), ("a", 1), ("b", -1), ("b", 1)}
    for key, effect in {("a", -1): 0.5, ("a", 1): 0.0, ("b", -1): 0.0, ("b", 1): -0.2}.items():
        assert 0.005 < found[key][1] < 0.03
        assert found[key][0] == pytest.approx(effect, abs=4 * found[key][1])


def test_a_run_without_an_answer_counts_as_ten_times_the_worst() -> None:
    rows = [{"case": "x", "levels": {"a": n % 2}, "result": np.inf if n % 2 else 1.0 + n % 3} for n in range(40)]
    effect, _ = fitted(rows, ["a"], "result")["a", 1]
    assert effect > np.log(10.0)
