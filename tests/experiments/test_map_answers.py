"""Lines of the MAP table: the best of several solvers, complete lines only, answers of the archive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from equifactor.data import collection
from experiments.experiment_config import load_map
from experiments.map_answers import (
    JudgedLine,
    MapAnswers,
    complete_lines,
    judged_lines,
    shipped_hash,
    solve_jobs,
    solve_lines,
    unavailable,
)
from experiments.map_splits import ModelSplit, splits_of
from experiments.run_store import RunStore
from experiments.runner import Effort

pytestmark = pytest.mark.usefixtures("plain_numpy")


def test_the_best_of_several_is_the_highest_score_and_their_times_add_up(folder: Path, tmp_path: Path) -> None:
    instances, store = collection(folder, "Grids")[:2], RunStore(tmp_path)
    split = ModelSplit("Grids", None, (), tuple(instances))
    line = JudgedLine("both", split, 0, ("best-first(steps=0)", "exact"), 5.0)
    assert MapAnswers(store).answer(line, instances[0]) is None
    rows = solve_jobs([job for i in instances for job in line.jobs(i)], store, Effort())
    for instance in instances:
        row = MapAnswers(store).answer(line, instance)
        worse, better = line.jobs(instance)
        assert row is not None
        assert row["solver"] == "exact"
        assert row["map_error"] == 0.0
        assert row["seconds"] == pytest.approx(rows[worse]["seconds"] + rows[better]["seconds"], abs=1e-4)


def test_a_line_of_cross_validation_needs_all_its_folds(folder: Path, tmp_path: Path) -> None:
    experiment = replace(load_map("uai").selected("BP", "Grids"), folds={"Grids": 2})
    folds, store = [s for s in splits_of(experiment, folder) if s.fold is not None], RunStore(tmp_path)
    judged, _ = judged_lines(experiment, folds, [], store)
    for n, line in enumerate(judged):
        solve_lines([line], store, Effort())
        rows, words = complete_lines(judged, MapAnswers(store))
        assert (len(rows), len(words)) == ((0, 1), (6, 0))[n]
        assert not words or words == ["BP on the folds of Grids, seed 0: 3 of 6 models are solved"]


def test_archived_answers_are_not_solved_again_unless_the_question_changes(folder: Path, tmp_path: Path) -> None:
    experiment, store = load_map("uai").selected("BP", "Grids"), RunStore(tmp_path)
    judged, _ = judged_lines(experiment, splits_of(experiment, folder)[:1], [], store)
    solve_lines(judged, store, Effort())
    rows, _ = complete_lines(judged, MapAnswers(store))
    solved = tmp_path / "runs" / "rows.jsonl"
    solved.unlink()
    again = RunStore(tmp_path)
    solve_lines(judged, again, Effort())
    assert not solved.exists()
    found, none = complete_lines(judged, MapAnswers(again))
    assert not none
    assert [{k: v for k, v in row.items() if v} for row in rows] == [
        {k: v for k, v in row.items() if v} for row in found
    ]
    for other in (replace(judged[0], time_limit=3.0), replace(judged[0], solvers=("bp(iterations=7)",))):
        assert complete_lines([other], MapAnswers(again)) == (
            [],
            ["BP on Grids, seed 0: 0 of 2 models are solved"],
        )


def test_what_was_solved_elsewhere_is_shown_where_the_solver_is_missing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment, store = load_map("uai").selected("BP", "Grids"), RunStore(tmp_path)
    splits = splits_of(experiment, folder)[:1]
    judged, _ = judged_lines(experiment, splits, [], store)
    solve_lines(judged, store, Effort())
    monkeypatch.setattr("equifactor.solvers.messages.bp.BeliefPropagation.missing", lambda _: "no such package")
    judged, words = judged_lines(experiment, splits, [], store)
    assert [line.obstacle for line in judged] == ["no such package"]
    assert not words
    assert [len(found) for found in complete_lines(judged, MapAnswers(store))] == [2, 0]
    assert "(no such package)" in complete_lines(judged, MapAnswers(RunStore(tmp_path / "empty")))[1][0]


def test_answers_of_older_shipped_weights_are_not_taken(folder: Path, tmp_path: Path, monkeypatch) -> None:
    (method,) = load_map("uai").selected("FE-Net shipped").methods
    monkeypatch.setattr("equifactor.solvers.learned.learned_solver.WEIGHTS", tmp_path)
    hashes = []
    for content in (b"old", b"new", b"new"):
        (tmp_path / "fe-net-map.safetensors").write_bytes(content)
        hashes.append(shipped_hash(method))
    assert hashes[0] != hashes[1] == hashes[2]
    instance = collection(folder, "Grids")[0]
    lines = [
        JudgedLine("FE-Net", ModelSplit("Grids", None, (), (instance,)), 0, ("bp",), 1.0, "shipped", files)
        for files in hashes
    ]
    assert len({line.jobs(instance)[0].key("") for line in lines}) == 2
    assert len({line.key(instance) for line in lines}) == 2


def test_a_solver_that_cannot_run_here_says_why() -> None:
    assert unavailable("bpnn") is not None
    assert unavailable("bp") is None
