"""The run over many instances: what is written, what is kept after a kill, what is run again."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from equifactor.data import Instance
from equifactor.evaluation import evaluate
from equifactor.evaluation.provenance import code
from equifactor.evaluation.summary import tables
from equifactor.evaluation.worker_pool import Worker
from equifactor.result import Task


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
