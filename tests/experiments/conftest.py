from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from equifactor import FactorGraph, solve, write_graph
from equifactor.generators import ising_grid, potts_grid

MakeFolder = Callable[[dict[str, list[FactorGraph]]], Path]


@pytest.fixture
def make_folder(tmp_path: Path) -> MakeFolder:
    """Return a function that writes graphs as collections with scores; the last two of each are test models."""

    def write(made: dict[str, list[FactorGraph]]) -> Path:
        path, records = tmp_path / "models", []
        for name, graphs in made.items():
            (path / name).mkdir(parents=True)
            for n, graph in enumerate(graphs):
                write_graph(graph, path / name / f"g{n}.uai")
                score = solve(graph, "MAP", "exact").log_score
                split = "test" if n >= len(graphs) - 2 else "train"
                records.append({"collection": name, "name": f"g{n}", "split": split, "map_log_score": score})
        (path / "index.json").write_text(json.dumps(records))
        return path

    return write


@pytest.fixture
def folder(make_folder: MakeFolder) -> Path:
    """Return a folder of two collections with scores and splits; the second has variables of three states."""
    made = {"Grids": [ising_grid(3, 3, seed=n) for n in range(6)]}
    made["Segment"] = [potts_grid(2, 3, states=3, seed=n) for n in range(5)]
    return make_folder(made)
