"""The run over many instances: processes, limits, kills, resuming, what is written."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from equifactor import FormatError, OptionError, solve
from equifactor.data import Instance, collection
from equifactor.evaluation import evaluate
from equifactor.evaluation.jobs import Job, make_jobs
from equifactor.evaluation.provenance import code
from equifactor.evaluation.row_store import Store
from equifactor.evaluation.summary import tables
from equifactor.evaluation.worker import run_job
from equifactor.evaluation.worker_pool import Worker, run_jobs
from equifactor.generators import ising_grid
from equifactor.io import write_graph
from equifactor.result import Task


@pytest.fixture
def instances(tmp_path: Path) -> list[Instance]:
    """Three 3x3 grids with exact ln Z."""
    folder = tmp_path / "models"
    (folder / "toy").mkdir(parents=True)
    records = []
    for n in range(3):
        graph = ising_grid(3, 3, seed=n)
        write_graph(graph, folder / "toy" / f"g{n}.uai")
        log_z = solve(graph, "PR", "brute").log_z
        records.append({"collection": "toy", "name": f"g{n}", "log_z": log_z, "evidence_count": 0})
    (folder / "index.json").write_text(json.dumps(records))
    return collection(folder)


def test_no_score_where_the_right_answer_is_not_known(instances: list[Instance], tmp_path: Path) -> None:
    (row,) = evaluate(instances[:1], "MAP", ["bp"], tmp_path / "out", time_limit=5.0)
    assert row["answered"]
    assert row["score"] is None
    assert "error" not in row


def test_rows_files_and_table(instances: list[Instance], tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    rows = evaluate(
        instances, "PR", ["brute", "bp"], tmp_path / "out", time_limit=5.0, processes=2,
        progress=lambda done, total, note: seen.append((done, total)),
    )  # fmt: skip
    assert [(r["instance"], r["solver"]) for r in rows] == [(f"g{n}", s) for n in range(3) for s in ("brute", "bp")]
    assert all(r["score"] == pytest.approx(100.0) and r["status"] == "exact" for r in rows[::2])
    assert all(r["overrun"] == 0.0 for r in rows)
    assert seen[-1] == (6, 6)
    report = json.loads((tmp_path / "out" / "results.json").read_text())
    assert report["code"] == code()
    assert {"command", "commit", "date", "processor", "seed"} <= set(report)
    assert len(report["rows"]) == 6
    with (tmp_path / "out" / "results.csv").open() as handle:
        assert [r["solver"] for r in csv.DictReader(handle)] == ["brute", "bp"] * 3
    text = tables(rows, Task.PR)
    assert text.startswith("PR by brute, 5 s\n")
    assert "3 exact" in text


def test_finished_rows_are_not_run_again(
    instances: list[Instance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = evaluate(instances, "PR", ["brute"], tmp_path / "out")

    def run(*_: object) -> None:
        raise RuntimeError("it ran again")

    monkeypatch.setattr(Worker, "run", run)
    assert evaluate(instances, "PR", ["brute"], tmp_path / "out") == first
    monkeypatch.setattr("equifactor.evaluation.campaign.code", lambda: "another version")
    assert evaluate(instances, "PR", ["brute"], tmp_path / "out", reuse=True) == first
    with pytest.raises(RuntimeError, match="it ran again"):
        evaluate(instances, "PR", ["brute"], tmp_path / "out")


def test_a_kill_loses_only_what_was_running(instances: list[Instance], tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        from equifactor.data import collection
        from equifactor.evaluation import evaluate
        evaluate(collection({str(instances[0].path.parents[1])!r}), "PR", ["brute", "bp", "exact"],
                 {str(tmp_path / "out")!r})
    """)
    child = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    rows = tmp_path / "out" / "rows.jsonl"
    deadline = time.monotonic() + 60
    while not (rows.exists() and rows.read_text().count("\n") >= 2):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child.kill()
    child.wait()
    kept = rows.read_text().splitlines()
    with rows.open("a") as handle:
        handle.write('{"key": "cut sho')  # as a kill in the middle of a line leaves it
    # reuse: the source may have been edited between the two processes.
    finished = evaluate(instances, "PR", ["brute", "bp", "exact"], tmp_path / "out", reuse=True)
    assert len(finished) == 9
    lines = rows.read_text().splitlines()
    assert lines[: len(kept)] == kept
    assert len(lines) == 9


def test_store_refuses_a_foreign_file(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("hello\n")
    with pytest.raises(FormatError, match=r"rows\.jsonl:1"):
        Store(tmp_path)


def test_store_keeps_infinite_numbers(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add("a | 1", {"kl": float("inf"), "status": "converged"})
    json.loads((tmp_path / "rows.jsonl").read_text(), parse_constant=pytest.fail)
    with Store(tmp_path) as store:
        assert store.rows == {"a | 1": {"kl": float("inf"), "status": "converged"}}
        assert list(store.without_version()) == ["a"]


def test_job_survives_the_way_to_the_worker(instances: list[Instance]) -> None:
    job = make_jobs(instances, "pr", ["bp(damping=0.50)"], 3.0, seed=4)[0]
    assert job.solver == "bp(damping=0.5)"
    copy = Job.from_dict(json.loads(json.dumps(job.to_dict())))
    assert copy == job
    assert copy.instance.log_z == job.instance.log_z


def test_wrong_solvers_are_refused_before_anything_runs(instances: list[Instance]) -> None:
    with pytest.raises(OptionError, match="there is no solver 'nope'"):
        make_jobs(instances, "PR", ["brute", "nope"], None)


def test_errors_become_rows(instances: list[Instance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Instance("toy", "gone", tmp_path / "gone.uai")
    row = run_job(Job(missing, "bp", Task.PR, 1.0))
    assert (row["status"], row["score"], row["answered"]) == ("error", 0.0, False)
    assert "missing" in row["message"]

    def fail(*args: object, **kwargs: object) -> None:
        raise MemoryError

    monkeypatch.setattr("equifactor.evaluation.worker._solved", fail)
    assert run_job(Job(instances[0], "bp", Task.PR, 1.0))["status"] == "out-of-memory"


def test_overrun_allows_ten_percent_and_a_second(instances: list[Instance]) -> None:
    job = Job(instances[0], "bp", Task.PR, 10.0)
    assert job.overrun(11.9) == 0.0
    assert job.overrun(14.0) == pytest.approx(2.0)
    assert Job(instances[0], "bp", Task.PR, None).overrun(1e9) == 0.0


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize(
    ("body", "status"), [("raise SystemError('boom')", "crashed"), ("import time; time.sleep(60)", "killed")]
)
def test_a_dead_worker_is_a_row_and_the_next_job_runs(
    instances: list[Instance], monkeypatch: pytest.MonkeyPatch, body: str, status: str
) -> None:
    monkeypatch.setattr("equifactor.evaluation.worker_pool._GRACE", 0.5)
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda args, **kw: popen([sys.executable, "-c", body], **kw))
    worker = Worker()
    row = worker.run(Job(instances[0], "brute", Task.PR, 0.1))
    assert (row["status"], row["score"]) == (status, 0.0)
    assert ("boom" in row["message"]) == (status == "crashed")
    monkeypatch.undo()
    assert worker.run(Job(instances[0], "brute", Task.PR, 5.0))["status"] == "exact"
    worker.stop()


def test_leaving_the_loop_ends_the_processes(instances: list[Instance]) -> None:
    jobs = make_jobs(instances, "PR", ["brute", "exact"], 5.0)
    loop = run_jobs(jobs, processes=2)
    next(loop)
    loop.close()  # type: ignore[attr-defined]
    assert list(run_jobs([], processes=2)) == []
