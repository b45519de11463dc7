"""`equifactor sample`: CSV and archives of samples, evidence by name, statuses."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import equifactor as ef
from equifactor.formats import write_graph
from equifactor.generators import ising_grid


@pytest.fixture
def weather(tmp_path: Path) -> ef.FactorGraph:
    """Write `weather.bif`, a network with names."""
    graph = ef.FactorGraph(
        {"rain": ["no", "yes"], "grass": ["dry", "wet"]},
        [(["rain"], [0.8, 0.2]), (["rain", "grass"], [[0.9, 0.1], [0.05, 0.95]])],
    )
    write_graph(graph, tmp_path / "weather.bif")
    return graph


def test_csv_with_names(command, weather: ef.FactorGraph, tmp_path: Path) -> None:
    ran = command("sample", "weather.bif", "-n", "50", "--seed", "3", "-e", "grass=wet")
    assert ran.status == 0
    expected = ef.sample(weather, 50, seed=3, evidence={"grass": "wet"})
    assert ran.out == "".join(expected.csv_lines())
    assert command("sample", "weather.bif", "-n", "50", "--seed", "3", "-e", "grass=wet", "-o", "s.csv.gz").out == ""
    assert gzip.decompress((tmp_path / "s.csv.gz").read_bytes()).decode() == ran.out


def test_an_archive(command, weather: ef.FactorGraph, tmp_path: Path) -> None:
    assert command("sample", "weather.bif", "-n", "20", "-o", "s.npz").status == 0
    with np.load(tmp_path / "s.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["states"], ef.sample(weather, 20).states)
        assert file["variables"].tolist() == ["rain", "grass"]
        assert file["state_names"].tolist() == ["no", "yes", "dry", "wet"]
        assert file["state_ptr"].tolist() == [0, 2, 4]


def test_nothing_is_written_where_nothing_can_be_drawn(command, tmp_path: Path) -> None:
    graph = ef.FactorGraph({"a": ["x", "y"], "b": ["u", "v"]}, [(["a", "b"], [[1.0, 0.0], [1.0, 1.0]])])
    write_graph(graph, tmp_path / "model.cfn")
    ran = command("sample", "model.cfn", "-n", "3", "-e", "a=x,b=v", "-o", "s.csv")
    assert ran.status == 1
    assert "0 samples: zero-probability" in ran.err
    assert not (tmp_path / "s.csv").exists()


def test_statuses_are_said_and_strict_is_strict(command, tmp_path: Path) -> None:
    write_graph(ising_grid(8, 8, seed=1), tmp_path / "grid.uai")
    refused = command("sample", "grid.uai", "--solver", "exact(memory_limit=1e-6)", "--strict")
    assert refused.status == 1
    assert "0 samples: too-large" in refused.err
    assert command("sample", "missing.uai").status == 3
    other = command("sample", "grid.uai", "-o", "s.parquet")
    assert other.status == 2
    assert "samples are written to a .csv" in other.err
    assert command("sample", "grid.uai", "--solver", "bp").status == 2
