"""`equifactor evaluate`: tables, finished rows and wrong usage."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from equifactor.formats import write_graph
from equifactor.generators import ising_grid

pytestmark = pytest.mark.usefixtures("plain_numpy")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    for n in range(3):
        write_graph(ising_grid(2, 3, seed=n), folder / f"g{n}.uai")
    return folder


def test_a_folder_without_answers_shows_times_and_statuses(command, models: Path) -> None:
    ran = command("evaluate", "models", "--task", "MAP", "--solver", "brute", "--limit", "2", "-o", "out")
    assert ran.status == 0, ran.err
    assert "no right answers for MAP are known here" in ran.err
    assert "2/2 models/g1 brute: optimal" in ran.err
    assert "MAP by brute, 20 s" in ran.out
    assert "2 optimal" in ran.out
    again = command("evaluate", "models", "--task", "MAP", "--solver", "brute", "--limit", "2", "-o", "out")
    assert "2/2 2 runs are already finished" in again.err
    assert again.out == ran.out


def test_a_folder_without_answers_is_scored_by_a_solver(command, models: Path) -> None:
    ran = command("evaluate", "models", "--task", "PR", "--solver", "bp", "--reference", "exact", "-o", "out")
    assert ran.status == 0, ran.err
    assert "no right answers" not in ran.err
    assert "3/3 reference: models/g2 exact: exact" in ran.err
    assert "exact (computed)" in ran.out
    rows = json.loads(Path("out/results.json").read_text())["rows"]
    assert all(row["score"] is not None and row["reference"] == "exact (computed)" for row in rows)


def test_marginal_map_with_queries_and_a_board(command, models: Path) -> None:
    for n in range(3):
        (models / f"g{n}.uai.query").write_text(f"2 {n} 4\n")
    (models / "reference.csv").write_text("problem,best_log10,trivial_log10_estimate\ng0,0.5,-1\ng2,9,\n")
    ran = command("evaluate", "models", "--task", "MMAP", "--solver", "brute", "-o", "out", "--split", "train")
    assert ran.status == 0, ran.err
    assert "MMAP by brute, 20 s" in ran.out
    (row,) = json.loads(Path("out/results.json").read_text())["rows"]
    assert (row["instance"], row["score"], row["proven"]) == ("g0", 100.0, True)
    assert row["log_score"] == pytest.approx(row["claimed_log_score"])
    (models / "reference.csv").unlink()
    (models / "g1.uai.query").write_text("2 0 99\n")
    broken = command("evaluate", "models", "--task", "MMAP", "--solver", "brute", "-o", "new")
    assert "models/g1 brute: error: The model has no variable 99" in broken.err
    (models / "reference.csv").write_text("problem,best_log10\ng0,x\n")
    assert "reference.csv: expected columns" in command("evaluate", "models", "--task", "MMAP").err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["evaluate", "nowhere"], 3, "no such folder"),
        (["evaluate", "models/g0.uai"], 3, "expected a folder of models, found a file"),
        (["evaluate"], 2, "EQUIFACTOR_DATA"),
        (["evaluate", "models", "--collection", "MAR"], 2, "no collection 'MAR'"),
        (["evaluate", "models", "--solver", "nope"], 2, "no solver 'nope'"),
        (["evaluate", "models", "--task", "SUM"], 2, "no task 'SUM'"),
        (["evaluate", "models", "--split", "test"], 2, "no split 'test'"),
        (["evaluate", "models", "--time-limit", "-1"], 2, "time limit"),
        (["evaluate", "models", "--reference", "nope"], 2, "no solver 'nope'"),
        (["evaluate", "models", "--reference-limit", "-1"], 2, "reference limit"),
    ],
)
def test_wrong_usage_is_a_sentence(
    command, models: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], status: int, message: str
) -> None:
    monkeypatch.delenv("EQUIFACTOR_DATA", raising=False)
    ran = command(*arguments)
    assert ran.status == status
    assert message in ran.err
    assert not Path("results").exists()


@pytest.mark.data
@pytest.mark.skipif("EQUIFACTOR_DATA" not in os.environ, reason="EQUIFACTOR_DATA names no folder")
def test_public_models(command) -> None:
    ran = command("evaluate", "--collection", "MAR", "--limit", "1", "--solver", "bp(damping=0.5)", "-o", "out")
    assert ran.status == 0, ran.err
    rows = json.loads(Path("out/results.json").read_text())["rows"]
    score = {row["family"]: row["score"] for row in rows}
    assert len(score) == 10
    assert score["Alchemy"] > 99
    assert score["ObjectDetection"] > 90
