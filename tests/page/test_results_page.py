"""A folder of `evaluate` on the page: tables, curves, models and the way into them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page_client import Client

from equifactor import FormatError, solve, write_graph
from equifactor.formats import write_evidence
from equifactor.generators import ising_grid
from equifactor.page.page_export import export
from equifactor.page.results_page import ResultsFolder
from equifactor.page.viewer import Page, Viewer

Serve = Callable[[Page], Client]


def row(instance: str, solver: str, **values: Any) -> dict[str, Any]:
    common = {
        "instance": instance, "collection": "grids", "family": "grids", "split": None, "task": "MAR", "solver": solver,
        "time_limit": 5.0, "status": "converged", "seconds": 1.0, "overrun": 0.0, "score": 80.0, "error": 0.1,
    }  # fmt: skip
    return {**common, **values}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of results of two solvers on two models, which are in `grids`."""
    models, results = tmp_path / "grids", tmp_path / "results"
    models.mkdir()
    results.mkdir()
    for name in ("a", "b"):
        write_graph(ising_grid(3, 3, seed=1), models / f"{name}.uai")
    write_evidence({0: 1}, models / "b.uai.evid")
    rows = [
        row("a", "exact", status="exact", score=100.0, error=0.0, seconds=0.5),
        row("b", "exact", status="exact", score=100.0, error=0.0, seconds=2.0),
        row("a", "bp"), row("b", "bp", score=20.0, error="inf", kl="inf", seconds=3.0),
    ]  # fmt: skip
    about = {"command": "equifactor evaluate grids --task MAR", "date": "2026-01-01T00:00:00+00:00"}
    (results / "results.json").write_text(json.dumps({**about, "rows": rows}))
    return results


def test_tables_and_curves(serve: Serve, folder: Path) -> None:
    client = serve(ResultsFolder(folder))
    assert client.get("session")["mode"] == "results"
    results = client.get("results")
    assert [t["title"] for t in results["tables"]] == ["MAR by exact, 5 s", "MAR by bp, 5 s"]
    table = results["tables"][1]
    assert table["columns"][:3] == ["family", "count", "score"]
    assert table["rows"][0][:4] == ["grids", "2", "50.0", "- +1 inf"]
    exact, bp = results["curves"]
    assert (exact["seconds"], exact["score"]) == ([0.5, 2.0], [50.0, 100.0])
    assert (bp["seconds"], bp["score"]) == ([1.0, 3.0], [40.0, 50.0])
    by_name = {m["name"]: m for m in results["models"]}
    assert by_name["grids/b"]["path"] is not None
    assert by_name["grids/b"]["rows"][1] == {
        "solver": "bp", "task": "MAR", "status": "converged", "score": 20.0, "seconds": 3.0, "error": None,
        "time_limit": 5.0,
    }  # fmt: skip


def test_into_a_model_and_back(serve: Serve, folder: Path) -> None:
    client = serve(ResultsFolder(folder))
    session = client.post("open", model="grids/b")
    assert session == client.get("session")
    assert session["mode"] == "model"
    assert session["back"]
    assert session["evidence"] == {"0": 1}
    expected = solve(ising_grid(3, 3, seed=1).condition({0: 1}), "MAR", "exact")
    assert client.post("solve", solver="exact")["log_z"] == pytest.approx(expected.log_z)
    assert client.status("GET", "results")[0] == 404
    assert client.post("back")["mode"] == "results"
    assert client.get("results")["tables"]


def test_one_file(folder: Path) -> None:
    export(Viewer(ResultsFolder(folder)), str(folder / "page.html"))
    text = (folder / "page.html").read_text(encoding="utf-8")
    assert '"title":"results","readonly":true' in text
    assert '"name":"grids/a","path":null' in text
    assert str(folder) not in text


def test_models_that_are_not_known(serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "grids/c" in serve(ResultsFolder(folder)).refused("open", model="grids/c")
    (folder.parent / "grids").rename(folder.parent / "moved")
    monkeypatch.delenv("EQUIFACTOR_DATA", raising=False)
    client = serve(ResultsFolder(folder))
    assert client.get("results")["models"][0]["path"] is None
    assert "Name the folder of the models with --models FOLDER" in client.refused("open", model="grids/a")
    (folder.parent / "moved").rename(folder.parent / "grids")
    assert serve(ResultsFolder(folder, folder.parent / "grids")).post("open", model="grids/a")["mode"] == "model"


def test_a_comparison_that_still_runs(folder: Path) -> None:
    rows = json.loads((folder / "results.json").read_text())["rows"]
    (folder / "results.json").unlink()
    log = folder / "rows.jsonl"
    for line in rows:
        del line["score"], line["error"]
    log.write_text("".join(json.dumps({"key": str(n), "answer": "x", **r}) + "\n" for n, r in enumerate(rows[:2])))
    page = ResultsFolder(folder)
    assert [c["score"] for c in page.results()["curves"]] == [[50.0, 100.0]]
    assert page.results()["score_label"] == "solved, percent"
    with log.open("a") as file:
        file.write(json.dumps({"key": "2", **rows[2]}) + '\n{"key": "3", "inst')
    assert len(page.results()["curves"]) == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": 3}', '{"rows": [{}]}', '{"rows": [{"task": "x"}]}'])
def test_other_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(FormatError, match="expected results that equifactor evaluate wrote"):
        ResultsFolder(tmp_path)
