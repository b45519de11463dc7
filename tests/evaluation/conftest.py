"""Small models with known answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from equifactor import solve
from equifactor.data import Instance, collection
from equifactor.formats import write_graph
from equifactor.generators import ising_grid


@pytest.fixture
def instances(tmp_path: Path) -> list[Instance]:
    """Return three 3x3 grids with exact ln Z."""
    folder = tmp_path / "models"
    (folder / "toy").mkdir(parents=True)
    records = []
    for n in range(3):
        graph = ising_grid(3, 3, seed=n)
        write_graph(graph, folder / "toy" / f"g{n}.uai")
        log_z = solve(graph, "PR", "brute").log_z
        records.append({"collection": "toy", "name": f"g{n}", "log_z": log_z, "evidence_count": 0})
    (folder / "index.json").write_text(json.dumps(records))
    return collection(folder)
