"""`equifactor isomorphic`: whether two models are the same up to numbering."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from equifactor import FactorGraph, read_graph
from equifactor.data import collection
from equifactor.formats import write_graph
from equifactor.symmetry import Relabelling, relabel
from equifactor.testing import assert_same_graph


def test_isomorphic_models(command, other: FactorGraph, tmp_path: Path) -> None:
    ran = command("isomorphic", "grid.uai", "other.uai", "--mapping", "map.json")
    assert (ran.status, ran.out) == (0, "isomorphic\n")
    r = Relabelling.from_dict(json.loads((tmp_path / "map.json").read_text()))
    assert_same_graph(relabel(read_graph(tmp_path / "grid.uai"), r), read_graph(tmp_path / "other.uai"))
    assert json.loads(command("isomorphic", "grid.uai", "other.uai", "--mapping", "-").out) == r.to_dict()


def test_different_models_exit_1_and_leave_the_mapping_alone(command, grid: FactorGraph, tmp_path: Path) -> None:
    write_graph(grid.with_potentials(grid.log_phi * 1.5, log=True), tmp_path / "steep.uai")
    (tmp_path / "map.json").write_text("old")
    ran = command("isomorphic", "grid.uai", "steep.uai", "--mapping", "map.json")
    assert (ran.status, ran.out) == (1, "not isomorphic\n")
    assert (tmp_path / "map.json").read_text() == "old"


def test_tolerance(command, other: FactorGraph, tmp_path: Path) -> None:
    write_graph(other.with_potentials(other.log_phi + 1e-10, log=True), tmp_path / "noisy.uai")
    assert command("isomorphic", "grid.uai", "noisy.uai").status == 1
    assert command("isomorphic", "grid.uai", "noisy.uai", "--tolerance", "1e-8").status == 0
    assert command("isomorphic", "grid.uai", "noisy.uai", "--tolerance", "-1").status == 2


def test_evidence(command, other: FactorGraph, tmp_path: Path) -> None:
    (tmp_path / "a.evid").write_text("1 0 0")
    assert command("isomorphic", "grid.uai", "grid.uai", "-e", "a.evid").status == 0
    (tmp_path / "b.evid").write_text("1 5 0")
    assert command("isomorphic", "grid.uai", "grid.uai", "-e", "a.evid", "-e", "b.evid").status == 1


def test_bad_input(command, grid: FactorGraph) -> None:
    ran = command("isomorphic", "grid.uai", "none.uai")
    assert ran.status == 3
    assert "none.uai: cannot read this file" in ran.err
    assert command("isomorphic", "grid.uai").status == 2
    assert command("isomorphic", "grid.uai", "grid.uai", "--mapping", "no/such/map.json").status == 3


@pytest.mark.data
@pytest.mark.skipif("EQUIFACTOR_DATA" not in os.environ, reason="EQUIFACTOR_DATA names no folder")
def test_public_models(command, tmp_path: Path) -> None:
    """Compare one model of every family, up to 1,000 variables, with a relabelling of itself."""
    families = {}
    for instance in collection(None):
        families.setdefault(instance.family, instance)
    compared = 0
    for instance in families.values():
        graph = read_graph(instance.path)
        if graph.num_vars > 1000:
            continue
        write_graph(relabel(graph, Relabelling.random(graph, seed=1)), tmp_path / "other.uai")
        assert command("isomorphic", str(instance.path), "other.uai").status == 0, instance.key
        compared += 1
    assert compared
