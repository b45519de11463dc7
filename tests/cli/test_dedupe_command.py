"""`equifactor dedupe`: classes of equal models in a folder."""

from __future__ import annotations

import json
from pathlib import Path

from equifactor import FactorGraph, read_graph
from equifactor.formats import write_graph


def test_classes_of_equal_models(command, other: FactorGraph, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    (folder / "more").mkdir(parents=True)
    write_graph(other, folder / "more" / "b.fg.gz")
    write_graph(read_graph(tmp_path / "grid.uai"), folder / "a.uai")
    write_graph(FactorGraph([2]), folder / "c.uai")
    (folder / "notes.txt").write_text("not a model")
    ran = command("dedupe", "models", "--tolerance", "1e-9")
    assert ran.status == 0
    assert ran.out == "2 x 16 variables, 40 factors\n  models/a.uai\n  models/more/b.fg.gz\n"
    assert "3 models, 2 different, 1 duplicate" in ran.err
    assert command("dedupe", "models", "--all", "--tolerance", "1e-9").out.endswith("\n  models/c.uai\n")
    rows = [json.loads(line) for line in command("dedupe", "models", "--json", "--tolerance", "1e-9").out.splitlines()]
    assert rows[1] == {"variables": 1, "factors": 0, "models": ["models/c.uai"]}


def test_goes_on_after_a_broken_model(command, grid: FactorGraph, tmp_path: Path) -> None:
    (tmp_path / "broken.uai").write_text("MARKOV\n2\n")
    ran = command("dedupe", ".", "--all")
    assert ran.status == 3
    assert "broken.uai" in ran.err
    assert "grid.uai" in ran.out
    (tmp_path / "empty").mkdir()
    assert "has no model files" in command("dedupe", "empty").err
    assert command("dedupe", "nowhere").status == 3
