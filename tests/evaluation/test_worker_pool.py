"""Worker processes: limits, crashes and shutdown."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from equifactor.base.status import Task
from equifactor.data import Instance
from equifactor.evaluation.jobs import Job, make_jobs
from equifactor.evaluation.worker_pool import Worker, run_jobs

pytestmark = pytest.mark.usefixtures("plain_numpy")


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize(
    ("body", "status", "grace"),
    [("raise SystemError('boom')", "crashed", 600.0), ("import time; time.sleep(600)", "killed", 0.5)],
)
def test_a_dead_worker_is_a_row_and_the_next_job_runs(
    instances: list[Instance], monkeypatch: pytest.MonkeyPatch, body: str, status: str, grace: float
) -> None:
    monkeypatch.setattr("equifactor.evaluation.worker_pool._GRACE", grace)
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda args, **kw: popen([sys.executable, "-c", body], **kw))
    worker = Worker()
    row = worker.run(Job(instances[0], "brute", Task.PR, 0.1))
    assert (row["status"], row["answered"]) == (status, False)
    assert ("boom" in row["message"]) == (status == "crashed")
    monkeypatch.undo()
    assert worker.run(Job(instances[0], "brute", Task.PR, 1e300))["status"] == "exact"
    worker.stop()


def test_leaving_the_loop_ends_the_processes(instances: list[Instance]) -> None:
    jobs = make_jobs(instances, "PR", ["brute", "exact"], 600.0)
    loop = run_jobs(jobs, processes=2)
    next(loop)
    loop.close()  # type: ignore[attr-defined]
    assert list(run_jobs([], processes=10**30)) == []
