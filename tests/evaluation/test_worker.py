"""The worker process: its errors become rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from equifactor.base.clock import Clock
from equifactor.base.status import Task
from equifactor.data import Instance
from equifactor.evaluation.jobs import Job, make_jobs
from equifactor.evaluation.worker import CHANGED, run_job, warm_up


def test_errors_become_rows(instances: list[Instance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Instance("toy", "gone", tmp_path / "gone.uai")
    row = run_job(Job(missing, "bp", Task.PR, 1.0))
    assert (row["status"], row["answered"]) == ("error", False)
    assert "missing" in row["message"]

    def fail(*args: object, **kwargs: object) -> None:
        raise MemoryError

    monkeypatch.setattr("equifactor.evaluation.worker._solved", fail)
    assert run_job(Job(instances[0], "bp", Task.PR, 1.0))["status"] == "out-of-memory"


def test_a_model_that_is_not_the_one_asked_about_is_not_solved(instances: list[Instance]) -> None:
    (job,) = make_jobs(instances[:1], "PR", ["brute"], 1.0)
    assert run_job(job)["status"] == "exact"
    instances[0].path.write_text(instances[1].path.read_text())
    assert run_job(job)["status"] == CHANGED


def test_kernels_are_compiled_before_the_first_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of a warm-up does not count compiling: otherwise the first job would have to compile."""
    monkeypatch.setattr(Clock, "ignores_compiling", False)
    seen = []
    monkeypatch.setattr(
        "equifactor.questions.solve.solve", lambda *args, **settings: seen.append(Clock.left_to_compile())
    )
    with Clock(1.0).govern():
        warm_up("bp", "MAR")
    assert seen
    assert set(seen) == {float("inf")}
    assert not Clock.ignores_compiling
