"""Evaluation of many instances: written files, rows that survive a kill, and runs that are repeated."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from equifactor import OptionError, solve
from equifactor.base.files import write_text
from equifactor.base.status import Task
from equifactor.data import Instance
from equifactor.evaluation import campaign, evaluate
from equifactor.evaluation.jobs import Job
from equifactor.evaluation.summary import tables
from equifactor.evaluation.worker import run_job
from equifactor.evaluation.worker_pool import Worker
from equifactor.formats.results import write_mar
from equifactor.generators import ising_grid
from equifactor.workers.code_version import code_version

pytestmark = pytest.mark.usefixtures("plain_numpy")


def test_no_score_where_the_right_answer_is_not_known(instances: list[Instance], tmp_path: Path) -> None:
    (row,) = evaluate(instances[:1], "MAP", ["bp"], tmp_path / "out", time_limit=600.0)
    assert row["answered"]
    assert (row["score"], row["reference"]) == (None, None)
    assert "error" not in row


def test_a_folder_and_one_solver_as_text(instances: list[Instance], tmp_path: Path) -> None:
    rows = evaluate(instances[0].path.parents[1], "PR", "brute", tmp_path / "out", time_limit=600.0)
    assert [(r["instance"], r["solver"]) for r in rows] == [(f"g{n}", "brute") for n in range(3)]


@pytest.mark.parametrize("given", [ising_grid(2, 2), [ising_grid(2, 2)], ["model.uai"], 3])
def test_models_that_are_not_in_files_are_refused(given: Any, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"Pass a folder, or a list of its models from equifactor\.data\.collection"):
        evaluate(given, "MAR", ["bp"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_rows_files_and_table(instances: list[Instance], tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    rows = evaluate(
        instances, "PR", ["brute", "bp"], tmp_path / "out", time_limit=600.0, processes=2,
        progress=lambda done, total, note: seen.append((done, total)),
    )  # fmt: skip
    assert [(r["instance"], r["solver"]) for r in rows] == [(f"g{n}", s) for n in range(3) for s in ("brute", "bp")]
    assert all(r["score"] == pytest.approx(100.0) and r["status"] == "exact" for r in rows[::2])
    assert all(r["overrun"] == 0.0 for r in rows)
    assert seen[-1] == (6, 6)
    report = json.loads((tmp_path / "out" / "results.json").read_text())
    assert report["code"] == code_version()
    assert {"command", "commit", "date", "processor", "seed"} <= set(report)
    assert len(report["rows"]) == 6
    with (tmp_path / "out" / "results.csv").open() as handle:
        assert [r["solver"] for r in csv.DictReader(handle)] == ["brute", "bp"] * 3
    text = tables(rows, Task.PR)
    assert text.startswith("PR by brute, 600 s\n")
    assert "3 exact" in text


def test_rows_are_kept_if_the_callers_function_raises(
    instances: list[Instance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def here(jobs: list[Job], processes: int, cluster: str | None) -> Iterator[tuple[Job, dict[str, Any]]]:
        for job in jobs:
            ran.append(job.instance.name)
            yield job, run_job(job)

    def stop(done: int, total: int | None, note: str) -> None:
        if done == 2:
            raise MemoryError("mine")

    monkeypatch.setattr(campaign, "run_jobs", here)
    with pytest.raises(MemoryError, match="mine"):
        evaluate(instances, "PR", ["brute"], tmp_path / "out", progress=stop)
    rows = evaluate(instances, "PR", ["brute"], tmp_path / "out")
    assert [row["instance"] for row in rows] == ran == ["g0", "g1", "g2"]


def test_finished_rows_are_not_run_again(
    instances: list[Instance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = evaluate(instances, "PR", ["brute"], tmp_path / "out")

    def run(*_: object) -> None:
        raise RuntimeError("it ran again")

    monkeypatch.setattr(Worker, "run", run)
    assert evaluate(instances, "PR", ["brute"], tmp_path / "out") == first
    monkeypatch.setattr("equifactor.evaluation.campaign.code_version", lambda: "another version")
    assert evaluate(instances, "PR", ["brute"], tmp_path / "out", reuse=True) == first
    with pytest.raises(RuntimeError, match="it ran again"):
        evaluate(instances, "PR", ["brute"], tmp_path / "out")


def test_a_kill_loses_only_what_was_running(instances: list[Instance], tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        from equifactor.data import collection
        from equifactor.evaluation import campaign, evaluate
        evaluate(collection({str(instances[0].path.parents[1])!r}), "PR", ["brute", "bp", "exact"],
                 {str(tmp_path / "out")!r})
    """)
    child = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    rows = tmp_path / "out" / "rows.jsonl"
    deadline = time.monotonic() + 600
    while not (rows.exists() and rows.read_text().count("\n") >= 2):
        assert child.poll() is None
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


def test_a_model_replaced_under_its_name_is_solved_anew(instances: list[Instance], tmp_path: Path) -> None:
    first = evaluate(instances[:1], "PR", ["brute"], tmp_path / "out")[0]
    instances[0].path.write_text(instances[1].path.read_text())
    second = evaluate(instances[:1], "PR", ["brute"], tmp_path / "out")[0]
    assert second["log_z"] == pytest.approx(instances[1].log_z)
    assert first["log_z"] != second["log_z"]
    assert second["score"] < 100.0 == first["score"]


@pytest.mark.parametrize("task", ["MAR", "PR", "MAP"])
def test_new_right_answers_are_used_and_nothing_is_run_again(
    instances: list[Instance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    plain = replace(instances[0], record={})
    (unknown,) = evaluate([plain], task, ["bp"], tmp_path / "out")
    assert unknown["score"] is None
    monkeypatch.setattr(Worker, "run", lambda *_: pytest.fail("it ran again"))
    graph, path = plain.graph(), tmp_path / "g.MAR"
    best = solve(graph, task, "brute")
    scores = []
    for shift in (0.0, 1.0):  # the right answer, then another one under the same names
        record = {
            "log_z": getattr(best, "log_z", 0.0) + shift,
            "map_log_score": getattr(best, "log_score", 0.0) + shift,
        }
        exact = solve(graph, "MAR", "brute").marginals
        write_mar([p[::-1] if shift else p for p in exact], path)
        (row,) = evaluate([replace(plain, marginals_path=path, record=record)], task, ["bp"], tmp_path / "out")
        assert row["reference"] == "file"
        scores.append(row["score"])
    assert scores[0] > scores[1]
    assert (tmp_path / "out" / "rows.jsonl").read_text().count("\n") == 1


def test_equal_models_are_solved_once_and_named_each(instances: list[Instance], tmp_path: Path) -> None:
    copy = instances[0].path.with_name("copy.uai.gz")
    write_text(copy, instances[0].path.read_text())
    double = replace(instances[0], name="copy", path=copy)
    rows = evaluate([instances[0], double], "PR", ["brute"], tmp_path / "out")
    assert [row["instance"] for row in rows] == ["g0", "copy"]
    assert (tmp_path / "out" / "rows.jsonl").read_text().count("\n") == 1


def test_another_memory_limit_is_another_run(instances: list[Instance], tmp_path: Path) -> None:
    for limit in (8.0, 4.0):
        evaluate(instances[:1], "PR", ["brute"], tmp_path / "out", memory_limit=limit)
    assert (tmp_path / "out" / "rows.jsonl").read_text().count("\n") == 2


def test_rows_by_name_are_left_alone(
    instances: list[Instance], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = '{"key": "toy/g0 | PR | brute | 20.0 | 0 | 0.1.0+abc", "score": 3.0, "status": "exact"}\n'
    (tmp_path / "rows.jsonl").write_text(old)
    with caplog.at_level("INFO", "equifactor"):
        (row,) = evaluate(instances[:1], "PR", ["brute"], tmp_path, reuse=True)
    assert row["score"] == 100.0
    assert "1 rows identify their model by its name" in caplog.text
    assert (tmp_path / "rows.jsonl").read_text().startswith(old)
