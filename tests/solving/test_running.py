"""Runs of solvers on lists of large graphs and on structured factors, near the time limit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from equifactor import Clause, FactorGraph, Status, generators, solve
from equifactor.base.budget import Seconds
from equifactor.base.clock import Clock
from equifactor.base.errors import SolveError
from equifactor.factors.lowered_graph import lower, lower_all
from equifactor.solvers.elimination.evidence_rows import EvidenceRows
from equifactor.solving import running

GRIDS = [generators.ising_grid(3, 3, seed=seed) for seed in range(4)]
FORMULA = generators.random_ksat(12, 3.0, seed=0)


def test_large_graphs_are_answered_one_after_the_other_until_the_deadline(
    driven_time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_LARGE", 0)
    reports: list[tuple[int, int | None, str]] = []
    driven_time.tick = 0.0
    found = solve(GRIDS, "MAR", "bp", time_limit=5.0, progress=lambda *report: reports.append(report))
    assert [r.status.solved for r in found] == [True] * 4
    assert [report[:2] for report in reports] == [(n, 4) for n in (1, 2, 3, 4)]
    driven_time.tick = 0.5
    found = solve(GRIDS, "MAR", "bp", time_limit=5.0)
    assert found[0].answered
    assert [r.status for r in found[1:]] == [Status.TIME_LIMIT] * 3
    assert not found[-1].answered


def test_large_graphs_have_the_answers_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = solve(GRIDS, "MAR", "bp", time_limit=60.0)
    monkeypatch.setattr(running, "_LARGE", 0)
    for one, other in zip(batch, solve(GRIDS, "MAR", "bp", time_limit=60.0), strict=True):
        assert np.allclose(one.marginals.values, other.marginals.values, atol=1e-9)


def test_factors_are_not_written_as_tables_if_that_would_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(lower_all([FORMULA] * 3, clock=Clock(60.0))) == 3
    monkeypatch.setattr(Seconds, "LOWERING", 1e6)  # as on a formula with very many clauses
    assert len(lower_all([FORMULA] * 3, clock=Clock(60.0))) == 0
    late = solve(FORMULA, "PR", "mini-buckets", time_limit=0.5)
    assert (late.status, late.answered) == (Status.TIME_LIMIT, False)
    assert late.message == running.NO_TIME_FOR_TABLES
    for task in ("MAR", "MAP"):
        assert solve(FORMULA, task, "auto", time_limit=0.5).answered


def test_rows_of_evidence_are_not_planned_if_that_would_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.full((5, 9), -1)
    rows[:, 0] = [0, 1, 0, 1, -1]
    truth = EvidenceRows(GRIDS[0]).log_z(rows)
    monkeypatch.setattr(Seconds, "PLAN_START", 1e6)  # as on a model with very many edges
    with pytest.raises(SolveError, match="no time to sum out"):
        EvidenceRows(GRIDS[0], clock=Clock(1.0))
    monkeypatch.setattr(running, "_LARGE", 0)
    found = solve(GRIDS[0], evidence=rows, time_limit=60.0)
    assert np.allclose(found.log_z, truth)


def test_tables_of_clauses_hold_one_value_where_every_literal_fails() -> None:
    clauses = [Clause(), Clause([True, False], 1.5), Clause([False, True, False], 0.25), Clause(weight=2.0)]
    scopes = [[0], [0, 2], [3, 1, 0], [1, 2, 3]]
    graph = FactorGraph([2] * 4, list(zip(scopes, clauses, strict=True)))
    tables = lower(graph).graph
    assert tables.structure.kinds is None
    for states in itertools.product((0, 1), repeat=4):
        assert tables.log_score(states) == graph.log_score(states)


def test_a_network_is_not_started_if_its_tables_would_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seconds, "NETWORK_ENTRY", 1e6)  # as on a model with very large tables
    late = solve(GRIDS[0], "MAR", "fe-net", time_limit=0.5)
    assert (late.status, late.answered) == (Status.TIME_LIMIT, False)
    assert "not enough time to start the network" in late.message
