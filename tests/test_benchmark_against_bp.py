"""The comparison of learned solvers with BP on public models."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks import against_bp
from equifactor import solve
from equifactor.formats import write_graph
from equifactor.generators import ising_grid


def test_folder_is_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("EQUIFACTOR_DATA", raising=False)
    with pytest.raises(SystemExit):
        against_bp.main([])
    assert "Name the folder of public models" in capsys.readouterr().err


def test_errors_of_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = []
    (tmp_path / "Grids").mkdir()
    for n, graph in enumerate(ising_grid(3, 3, count=2, seed=4)):
        write_graph(graph, tmp_path / "m.uai")
        (tmp_path / "Grids" / f"g{n}.uai.gz").write_bytes(gzip.compress((tmp_path / "m.uai").read_bytes()))
        score = solve(graph, "MAP", "brute").log_score
        records.append({"collection": "Grids", "name": f"g{n}", "split": "train", "map_log_score": score})
    (tmp_path / "index.json").write_text(json.dumps(records))
    against_bp.main(["--data", str(tmp_path), "--task", "MAP"])
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[:3] == ["Grids", "0", "2"]
    errors = [float(word) for word in row[-5:]]
    assert errors[2] <= min(errors[0], errors[1])
    assert errors[4] <= min(errors[0], errors[3])
