"""The benchmark of time limits: the choice of models, and the runs that count as late."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from equifactor import write_graph
from equifactor.data import collection
from equifactor.generators import ising_grid, random_graph

pytestmark = pytest.mark.usefixtures("plain_numpy")


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder, name, graph in (
        ("Grids", "small", ising_grid(2, 2, seed=0)),
        ("Grids", "large", ising_grid(6, 6, seed=0)),
        ("Wide", "wide", random_graph(5, 3, arity=4, card=3, seed=0)),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        write_graph(graph, tmp_path / folder / f"{name}.uai")
    monkeypatch.setenv("EQUIFACTOR_DATA", str(tmp_path))
    return tmp_path


def test_the_largest_by_some_measure_are_taken(models: Path) -> None:
    from benchmarks.deadlines import largest, runs

    instances = collection()
    few = [i.key for i in largest(instances, 1)]
    assert set(few) == {"Grids/large", "Wide/wide"}
    todo = runs([i.key for i in instances], few, ["auto", "bp", "sample"])
    assert sum(run.solver == "auto" for run in todo) == 3 * 3  # every model, three tasks
    assert sum(run.solver == "bp" for run in todo) == 2 * 3
    assert sum(run.solver == "sample" for run in todo) == 2


def test_what_is_late_is_said() -> None:
    from benchmarks.deadlines import Run, problem, report

    row = {"status": "time-limit", "answered": True, "message": ""}
    rows = [(Run("m", "gibbs", "MAR"), {**row, "seconds": s, "cpu": s / 2}) for s in (1.0, 2.0, 2.3)]
    assert list(report(rows, 1.0, True))[2].startswith(f"{'gibbs':32} MAR      3        3        3    2.30 s    1.15 s")
    assert list(report(rows, 1.0, False))[3] == "3 runs, 1 late by wall time, 0 late by CPU time"
    assert [bool(problem(*pair, 1.0, True)) for pair in rows] == [False, False, True]
    assert "2.30 s of 1, 1.15 s CPU" in problem(*rows[2], 1.0, True)


@pytest.mark.skipif(sys.platform == "win32", reason="it forks")
def test_it_runs_and_ends_with_its_verdict(
    models: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.deadlines import main

    monkeypatch.setattr(sys, "argv", ["deadlines", "--solvers", "brute", "--limits", "5", "6", "--busy", "1"])
    assert main() == 0
    lines = [line.partition(" s of CPU") for line in capfd.readouterr().out.splitlines()]
    assert [first for first, _, _ in lines if first.startswith("limit")] == ["limit 5", "limit 6"]
    monkeypatch.delenv("EQUIFACTOR_DATA")
    assert main() == 0  # without models there is nothing to measure
    assert "No folder of models" in capfd.readouterr().out
