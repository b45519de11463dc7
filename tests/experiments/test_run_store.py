"""Archives of runs: storing, packing and reading. Every table of the repository follows from its archive."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from equifactor import FormatError
from experiments.experiment_config import MARGINAL, ROOT, load_map, load_marginal
from experiments.map_comparison import MapComparison, tables_of
from experiments.map_page import map_latex, map_page
from experiments.marginal_comparison import MarginalComparison
from experiments.network_files import file_hash, unpack_models
from experiments.run_store import ARCHIVE, RunStore, compact, expanded, read_archive
from experiments.score_card import score_card
from experiments.weights_judge import TASKS, write_judgement

TEXTS = ("results.json", "table.md")  # git does not keep table.tex


def test_runs_are_kept_at_once_and_packed_in_the_order_of_their_keys(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    assert store.get("b") is None
    assert not store.changed
    for key, value in (("b", 1.5), ("a", None)):
        store.add(key, {"value": value})
    assert RunStore(tmp_path).get("b") == {"value": 1.5}
    assert not (tmp_path / ARCHIVE).exists()
    store.pack()
    assert list(read_archive(tmp_path / ARCHIVE)) == ["a", "b"]
    assert not (tmp_path / "runs").exists()
    content = (tmp_path / ARCHIVE).read_bytes()
    again = RunStore(tmp_path)
    again.put({"a": {"value": None}})
    again.pack()
    assert not again.changed
    assert (tmp_path / ARCHIVE).read_bytes() == content
    again.add("b", {"value": 2})  # newer than the archive
    assert again.get("b") == {"value": 2}
    again.pack()
    assert read_archive(tmp_path / ARCHIVE)["b"] == {"value": 2}


def test_damaged_files_are_named(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).write_text('{"key": "a"}\n')
    with pytest.raises(FormatError, match=ARCHIVE):
        RunStore(tmp_path)
    (tmp_path / ARCHIVE).unlink()
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.json").write_text("{")
    with pytest.raises(FormatError, match=r"a\.json"):
        RunStore(tmp_path).get("a")


def test_compact_rows_keep_infinite_numbers() -> None:
    row = {"score": float("-inf"), "fold": 0, "seed": None, "proven": False, "weights": "", "name": "infinite"}
    assert json.loads(json.dumps(compact(row))) == {"score": "-inf", "fold": 0, "name": "infinite"}
    assert expanded(compact(row)) == {"score": float("-inf"), "fold": 0, "name": "infinite"}


def copy_of(name: str, tmp_path: Path) -> Path:
    """Copy the files from which the tables of an experiment are made, and the provenance of its results."""
    out = tmp_path / name
    out.mkdir(exist_ok=True)
    shutil.copy(ROOT / name / ARCHIVE, out)
    about = json.loads((ROOT / name / "results.json").read_text())
    kept = {task: {"provenance": about[task]["provenance"]} for task in TASKS if task in about}
    (out / "results.json").write_text(json.dumps(kept or {"provenance": about["provenance"]}))
    return out


@pytest.mark.parametrize("name", MARGINAL)
def test_every_table_follows_from_its_archive(name: str, tmp_path: Path) -> None:
    out = copy_of(name, tmp_path)
    MarginalComparison(load_marginal(name), out).write()
    for file in TEXTS:
        assert (out / file).read_text() == (ROOT / name / file).read_text()


def test_kept_networks_are_those_that_transfer_judged(tmp_path: Path) -> None:
    shutil.copy(ROOT / "ising" / "models.zip", tmp_path)
    unpack_models(tmp_path)
    rows = read_archive(ROOT / "transfer" / ARCHIVE)
    judged = {key: row["weights"] for key, row in rows.items() if "weights" in row}
    assert judged == {path.stem: file_hash(path) for path in (tmp_path / "models").iterdir()}
    assert len(judged) == 10


def test_the_tables_of_the_weights_follow_from_their_archive(tmp_path: Path) -> None:
    out = copy_of("weights", tmp_path)
    for task in TASKS:
        write_judgement(task, RunStore(out))
    for file in TEXTS:
        assert (out / file).read_text() == (ROOT / "weights" / file).read_text()


def test_the_map_tables_follow_from_results_whose_rows_are_archived() -> None:
    experiment, results = load_map("uai"), json.loads((ROOT / "uai" / "results.json").read_text())
    table, folds = tables_of(results)
    assert map_page(experiment, {**results, "answers": [expanded(r) for r in results["answers"]]}, table, folds) == (
        ROOT / "uai" / "table.md"
    ).read_text(encoding="utf-8")
    assert "auto" + r" & \textbf{0.0000}" * 4 + r" \\" in map_latex(experiment, table)
    runs = {key: run for key, run in read_archive(ROOT / "uai" / ARCHIVE).items() if not key.startswith("hash | ")}
    archived = [json.dumps(compact(run), sort_keys=True) for run in runs.values()]
    shown = [json.dumps(row, sort_keys=True) for k in ("trainings", "answers", "curve") for row in results[k]]
    assert sorted(archived) == sorted(shown)


def test_the_score_card_follows_from_its_rows() -> None:
    rows = json.loads((ROOT / "uai" / "card.json").read_text())["rows"]
    page = (ROOT / "uai" / "card.md").read_text().splitlines()[2:]
    ours = [line.split(" | ")[:9] for line in score_card(rows, {}).splitlines()]
    assert ours == [line.split(" | ")[:9] for line in page]  # the other columns come from the board


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("EQUIFACTOR_DATA"), reason="EQUIFACTOR_DATA is not set")
def test_the_map_results_follow_from_their_archive(tmp_path: Path) -> None:
    out = copy_of("uai", tmp_path)
    MapComparison(load_map("uai"), out, None).write()
    for file in TEXTS:
        assert (out / file).read_text() == (ROOT / "uai" / file).read_text()
