"""The benchmark of time limits: the choice of models, and the runs that count as late."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from equifactor import write_graph
from equifactor.data import collection
from equifactor.generators import ising_grid, random_graph


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
    from benchmarks.deadlines import jobs, largest

    instances = collection()
    assert {i.name for i in largest(instances, 1)} == {"large", "wide"}
    todo = jobs(instances, ["auto", "bp"], 1.0, False, 1)
    assert sum(job.solver.startswith("auto") for job in todo) == 3 * 3  # every model, three tasks
    assert sum(job.solver.startswith("bp") for job in todo) == 2 * 3
    assert {job.instance.name for job in jobs(instances, ["auto"], 1.0, False, 0)} == {"large", "wide"}


def test_what_is_late_is_said(models: Path) -> None:
    from benchmarks.deadlines import jobs, report

    todo = jobs(collection(), ["gibbs"], 1.0, True, 1)
    row = {"status": "time-limit", "answered": True, "message": ""}
    seconds = [1.0, 2.0, 2.3]
    rows = [
        (job, {**row, "seconds": s, "cpu_seconds": s / 2, "overrun": job.overrun(s)})
        for job, s in zip(todo, seconds, strict=True)
    ]
    lines = list(report(rows, 1.0))
    assert lines[2].split()[:10] == ["gibbs", "MAR", "3", "3", "3", "2.30", "s", "1.15", "s", "1"]
    assert [line.split(":")[0] for line in lines[3:]] == ["LATE"]
    assert "2.3 s of 1, 1.15 s CPU" in lines[3]


def test_it_runs_and_ends_with_its_verdict(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.deadlines import main

    monkeypatch.setattr(sys, "argv", ["deadlines", "--solvers", "brute", "--limits", "5", "6", "--busy", "1"])
    assert main() == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("limit")] == [
        "limit 5 s",
        "limit 6 s",
    ]
    monkeypatch.delenv("EQUIFACTOR_DATA")
    assert main() == 0  # without models there is nothing to measure
    assert "No folder of models" in capsys.readouterr().out
