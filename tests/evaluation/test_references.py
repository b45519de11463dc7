"""Computed reference answers: the runs that give one, and the score if there is no reference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from equifactor import OptionError, solve
from equifactor.base.status import Task
from equifactor.data import Instance
from equifactor.evaluation import evaluate
from equifactor.evaluation.summary import tables
from equifactor.evaluation.worker_pool import Worker
from equifactor.formats import write_graph
from equifactor.generators import ising_grid

pytestmark = pytest.mark.usefixtures("plain_numpy")


@pytest.mark.slow
@pytest.mark.parametrize("task", ["MAR", "PR", "MAP"])
def test_scores_against_computed_answers_are_those_against_files(
    instances: list[Instance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    wrong = [replace(i, record={"log_z": 1e3, "map_log_score": 1e3}) for i in instances]  # must not be used
    rows = evaluate(wrong, task, ["bp", "brute"], tmp_path / "out", reference="exact")
    assert [row["score"] for row in rows[1::2]] == [pytest.approx(100.0)] * 3
    assert {row["reference"] for row in rows} == {"exact (computed)"}
    if task != "MAR":
        exact = solve(instances[0].graph(), task, "exact")
        value = exact.log_z if task == "PR" else exact.log_score
        assert rows[0]["reference_value"] == pytest.approx(value)
    assert "exact (computed)" in tables(rows, Task(task))
    report = json.loads((tmp_path / "out" / "results.json").read_text())
    assert report["reference"] == "exact"
    assert {row["reference"] for row in report["rows"]} == {"exact (computed)"}
    monkeypatch.setattr(Worker, "run", lambda *_: pytest.fail("it ran again"))
    assert evaluate(wrong, task, ["bp", "brute"], tmp_path / "out", reference="exact") == rows


def test_a_computed_answer_follows_the_content_of_the_model(instances: list[Instance], tmp_path: Path) -> None:
    (first,) = evaluate(instances[:1], "PR", ["brute"], tmp_path / "out", reference="exact")
    instances[0].path.write_text(instances[1].path.read_text())
    (second,) = evaluate(instances[:1], "PR", ["brute"], tmp_path / "out", reference="exact")
    assert [first["score"], second["score"]] == [pytest.approx(100.0)] * 2
    assert second["reference_value"] == pytest.approx(instances[1].log_z)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "reason"),
    [("bp(iterations=1, tolerance=0)", "iteration-limit"), ("exact(memory_limit=0)", "too-large")],
)
def test_no_score_where_the_reference_is_not_solved(tmp_path: Path, reference: str, reason: str) -> None:
    write_graph(ising_grid(6, 6, seed=0), tmp_path / "g.uai")
    model = Instance("toy", "g", tmp_path / "g.uai")
    (row,) = evaluate([model], "MAR", ["bp"], tmp_path / "out", reference=reference)
    assert row["answered"]
    assert row["score"] is None
    assert "error" not in row
    assert row["reference"].startswith("none: ")
    assert f"ended {reason}" in row["reference"]


def test_a_reference_of_an_impossible_model_is_none(tmp_path: Path) -> None:
    (tmp_path / "z.uai").write_text("MARKOV\n1\n2\n1\n1 0\n2 0 0\n")
    (row,) = evaluate([Instance("toy", "z", tmp_path / "z.uai")], "PR", ["bp"], tmp_path / "out", reference="exact")
    assert row["score"] is None
    assert "zero-probability" in row["reference"]


def test_a_wrong_reference_is_refused_before_anything_runs(instances: list[Instance], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="There is no solver 'nope'"):
        evaluate(instances, "PR", ["bp"], tmp_path / "out", reference="nope")
    assert not (tmp_path / "out").exists()
