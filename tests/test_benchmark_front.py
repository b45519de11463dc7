"""The front of error against time: how rows become curves and ratios."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._front_families import limits_from, regular
from benchmarks.front import curves, print_table, ratios


def _row(solver: str, limit: float, error: float, seconds: float) -> dict[str, Any]:
    return {"graph": "0", "solver": solver, "limit": limit, "error": error, "seconds": seconds, "nothing": 1.0}


def test_late_answers_count_as_no_answer_and_early_ones_stay() -> None:
    rows = [_row("bp", 0.01, 0.2, 0.001), _row("fe-net", 0.01, 0.1, 0.5), _row("fe-net", 1.0, 0.1, 0.5)]
    rows += [_row("auto", 0.01, 0.4, 0.01), _row("auto", 1.0, 0.1, 1.0)]
    of = curves(rows, ["0"], [0.01, 1.0])
    np.testing.assert_allclose(of["bp"], [0.2, 0.2])
    np.testing.assert_allclose(of["fe-net"], [1.0, 0.1])
    ratio, best = ratios(of)
    np.testing.assert_allclose(ratio, [2.0, 1.0], rtol=1e-3)
    assert best == ["bp", "fe-net"]


def test_a_learned_solver_is_best_only_if_no_other_solver_ties_with_it() -> None:
    _, best = ratios({"fe-net": np.array([0.0, 0.1]), "bp": np.array([0.0, 0.2]), "auto": np.array([0.0, 0.1])})
    assert best == ["bp", "fe-net"]


def test_limits_and_regular_graphs() -> None:
    assert limits_from(0.003, 20.0) == [0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 20.0]
    graph = regular(0, 20, 3, 1.0)
    assert graph.num_factors == 20 + 30


def test_the_table_has_even_and_odd_places(capsys) -> None:
    rows = []
    for place in range(2):
        for solver, error in (("bp", 0.1), ("auto", 0.2 * (place + 1))):
            rows.append(_row(solver, 0.01, error, 0.001) | {"family": "DBN", "graph": str(place), "place": place})
    print_table(rows)
    head, _, row = capsys.readouterr().out.splitlines()
    assert head.startswith("| family | 0.01 s | 0.03 s |")
    assert row.startswith("| DBN | 2.0, 4.0 | 2.0, 4.0 |")
    assert row.endswith("| - |")
