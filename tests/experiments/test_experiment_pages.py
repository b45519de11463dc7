"""Numbers and pages: means over seeds, cells of the MAP table, goals, model by model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from equifactor.data import Instance
from experiments.experiment_config import load_map, load_marginal
from experiments.map_cells import cells_of, improved
from experiments.map_page import describe, map_latex, map_page, model_tables
from experiments.map_splits import ModelSplit
from experiments.marginal_page import marginal_latex, seed_means, size_tables


def test_seeds_become_one_line_with_a_standard_error() -> None:
    rows = [
        {"name": "A", "size": 5000, "kl": kl, "kl_stderr": 0.03, "rmse": 0.5, "rmse_stderr": 0.0, "seconds": 2.0}
        for kl in (0.1, 0.18)
    ]
    (line,) = seed_means(rows)
    assert line.seeds == 2
    assert line.kl == pytest.approx(0.14)
    assert line.kl_stderr == pytest.approx(0.05)  # 0.03 over graphs and 0.04 over seeds
    experiment = load_marginal("asymmetric")
    assert "| A | 0.14000 +- 0.05000 | 0.5000 +- 0.0000 | 2 | 2 |  |" in size_tables(experiment, [line])
    assert "A & $0.1400 \\pm 0.0500$" in marginal_latex(experiment, [line])


def _row(seed: int, error: float | None, **more: object) -> dict[str, object]:
    return {
        "line": "A",
        "collection": "Grids",
        "instance": "g",
        "seed": seed,
        "map_error": error,
        "seconds": 1.0,
        **more,
    }


def test_cells_count_what_a_mean_leaves_out() -> None:
    rows = [_row(0, 0.1), _row(0, float("inf"), zero_probability=True), _row(1, 0.3), _row(1, None)]
    cell = cells_of(rows)["A"]["Grids"]
    assert (cell.zero, cell.missing, cell.answers, cell.seeds) == (1, 1, 4, 2)
    assert cell.error == pytest.approx(0.2)
    assert cell.spread == pytest.approx(0.02**0.5)
    assert cell.text() == "0.2000 ± 0.1414 (1 zero, 1 unanswered of 4)"
    assert "A & $\\infty$ \\\\" in map_latex(load_map("uai").selected(None, "Grids"), {"A": {"Grids": cell}})
    good = _row(0, 0.0, log_score=-4.0, reference=-5.0, upper_bound=-3.0)
    assert cells_of([good])["A"]["Grids"].gap == pytest.approx(0.25)
    assert improved([good, _row(0, 0.0, log_score=-5.0, reference=-5.0)])[0]["log_score"] == -4.0


def test_a_model_that_several_lines_improve_is_named_once() -> None:
    rows = [_row(0, 0.0, log_score=score, reference=-5.0) for score in (-4.5, -4.0, -5.0)]
    (found,) = improved([*rows, {**rows[0], "line": "B"}])
    assert (found["log_score"], found["lines"]) == (-4.0, ["A", "B"])


def test_proofs_are_told_apart_for_sparse_and_dense_models() -> None:
    records = [{"variables": 4, "factors": 6}, {"variables": 4, "factors": 10, "map_status": "optimal"}]
    instances = [Instance("Grids", f"g{n}", Path(), record={**r, "map_log_score": 2.0}) for n, r in enumerate(records)]
    models = describe([ModelSplit("Grids", None, (), tuple(reversed(instances)))])
    assert [(m["model"], m["dense"], m["optimal"]) for m in models] == [("g0", False, False), ("g1", True, True)]
    rows = [
        {**_row(0, 0.0, proven=True, log_score=2.0, upper_bound=2.0), "line": "auto", "instance": "g0"},
        {**_row(0, 0.25, log_score=1.5, upper_bound=3.0), "line": "auto", "instance": "g1"},
    ]
    page = "\n".join(model_tables(load_map("uai"), models, rows))
    assert "| Grids, sparse | 1 of 1 proven |" in page
    assert "| Grids, dense | 0 of 1 proven, largest gap 1 |" in page
    assert "| Grids/g1 | 4 | 10 | 2.0000, optimal | error 0.25, gap 1, 1 s |" in page
    assert not model_tables(load_map("uai"), models, [_row(0, 0.0)])


def test_the_page_says_which_goals_hold() -> None:
    experiment = replace(
        load_map("uai").selected(None, "Grids,DBN"), goals={"A": {"Grids": 0.1, "DBN": 0.1}, "B": {"DBN": 1}}
    )
    rows = [_row(0, 0.05), {**_row(0, 0.0), "collection": "DBN"}]
    rows.append({**_row(0, float("inf"), zero_probability=True), "collection": "DBN"})
    results = {"answers": [], "split": {}, "models": [], "curve": [], "doubles": [], "improved": [], "missing": []}
    page = map_page(experiment, results, cells_of(rows), {})
    assert "| A | 0.1: yes, 0.0500 | 0.1: **no**, 0.0000 (1 zero of 2) |" in page
    assert "| B |  | 1: not run |" in page
    assert page.count("**Not held out.**") == 1
