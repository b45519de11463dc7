"""The process that solves: its errors are rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from equifactor.data import Instance
from equifactor.evaluation.jobs import Job
from equifactor.evaluation.worker import run_job
from equifactor.result import Task


def test_errors_become_rows(instances: list[Instance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Instance("toy", "gone", tmp_path / "gone.uai")
    row = run_job(Job(missing, "bp", Task.PR, 1.0))
    assert (row["status"], row["score"], row["answered"]) == ("error", 0.0, False)
    assert "missing" in row["message"]

    def fail(*args: object, **kwargs: object) -> None:
        raise MemoryError

    monkeypatch.setattr("equifactor.evaluation.worker._solved", fail)
    assert run_job(Job(instances[0], "bp", Task.PR, 1.0))["status"] == "out-of-memory"
