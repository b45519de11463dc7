"""Training logs on the page, while they grow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from page_client import Client

from equifactor import FormatError
from equifactor.page.training_page import TrainingLogs
from equifactor.page.viewer import Page

Serve = Callable[[Page], Client]


def epoch(n: int) -> str:
    return json.dumps({"epoch": n, "loss": None if n == 0 else 1.0 / n, "kl": 0.5, "best": 0.5, "seconds": 1.0}) + "\n"


def test_a_log_that_grows(serve: Serve, tmp_path: Path) -> None:
    log = tmp_path / "mine.jsonl"
    log.write_text(epoch(0) + epoch(1))
    client = serve(TrainingLogs(log))
    assert client.get("session")["mode"] == "training"
    (run,) = client.get("training")["runs"]
    assert run["name"] == "mine"
    assert run["columns"] == ["epoch", "loss", "kl", "best", "seconds"]
    assert run["rows"] == [[0, None, 0.5, 0.5, 1.0], [1, 1.0, 0.5, 0.5, 1.0]]
    assert run["best"] == 0.5
    assert not run["done"]
    with log.open("a") as file:
        file.write(epoch(2) + '{"epoch": 3, "lo')
    (run,) = client.get("training?since=2")["runs"]
    assert (run["start"], run["total"]) == (2, 3)
    assert run["rows"] == [[2, 0.5, 0.5, 0.5, 1.0]]
    log.write_text(epoch(0))  # the run started again
    (run,) = client.get("training?since=3")["runs"]
    assert (run["start"], run["total"]) == (0, 1)
    (tmp_path / "mine.safetensors").write_bytes(b"")
    os.utime(log, (1, 1))
    assert client.get("training")["runs"][0]["done"]


@pytest.mark.parametrize("since", ["-1", "x", "1.5"])
def test_wrong_questions(serve: Serve, tmp_path: Path, since: str) -> None:
    (tmp_path / "mine.jsonl").write_text(epoch(0))
    status, reply = serve(TrainingLogs(tmp_path)).status("GET", f"training?since={since}")
    assert status == 400
    assert "`since` must be a whole number" in reply["error"]


def test_a_folder_of_logs(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "second.jsonl").write_text(epoch(0))
    (tmp_path / "first.jsonl").write_text(epoch(0))
    (tmp_path / "other.jsonl").write_text('{"no": 1}\n')
    assert [run["name"] for run in TrainingLogs(tmp_path).training()["runs"]] == ["second", "first"]


@pytest.mark.parametrize("text", ["x\n", "[]\n", '{"no": 1}\n', epoch(0) + "\n"])
def test_what_is_no_log(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(FormatError, match=r"x\.jsonl:\d: expected a line of a training log"):
        TrainingLogs(tmp_path / "x.jsonl")
