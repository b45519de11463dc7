"""`equifactor isomorphic`, `dedupe` and `audit`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from equifactor import FactorGraph, Relabelling, read_graph, relabel
from equifactor.data import collection
from equifactor.io import write_graph
from equifactor.testing import assert_same_graph


@pytest.fixture
def other(grid: FactorGraph, tmp_path: Path) -> FactorGraph:
    """The grid under other numbers, in `other.uai`."""
    graph = relabel(read_graph(tmp_path / "grid.uai"), Relabelling.random(grid, seed=1))
    write_graph(graph, tmp_path / "other.uai")
    return graph


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
    assert "none.uai: cannot read it" in ran.err
    assert command("isomorphic", "grid.uai").status == 2
    assert command("isomorphic", "grid.uai", "grid.uai", "--mapping", "no/such/map.json").status == 3
    assert command("dedupe", "nowhere").status == 3
    assert command("audit", "--solver", "nope").status == 2
    assert command("audit", "--solver", "bp", "none.uai").status == 3
    assert command("audit", "--solver", "gibbs", "--task", "MAP", "grid.uai").status == 2
    assert command("audit", "--dtype", "float16").status == 2


def test_dedupe(command, other: FactorGraph, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    (folder / "more").mkdir(parents=True)
    write_graph(other, folder / "more" / "b.fg.gz")
    write_graph(read_graph(tmp_path / "grid.uai"), folder / "a.uai")
    write_graph(FactorGraph([2]), folder / "c.uai")
    (folder / "notes.txt").write_text("not a model")
    ran = command("dedupe", "models", "--tolerance", "1e-9")
    assert ran.status == 0
    assert ran.out == "2 x 16 variables, 40 factors\n  models/a.uai\n  models/more/b.fg.gz\n"
    assert "3 models, 2 different, 1 double" in ran.err
    assert command("dedupe", "models", "--all", "--tolerance", "1e-9").out.endswith("\n  models/c.uai\n")
    rows = [json.loads(line) for line in command("dedupe", "models", "--json", "--tolerance", "1e-9").out.splitlines()]
    assert rows[1] == {"variables": 1, "factors": 0, "models": ["models/c.uai"]}


def test_dedupe_goes_on_after_a_broken_model(command, grid: FactorGraph, tmp_path: Path) -> None:
    (tmp_path / "broken.uai").write_text("MARKOV\n2\n")
    ran = command("dedupe", ".", "--all")
    assert ran.status == 3
    assert "broken.uai" in ran.err
    assert "grid.uai" in ran.out
    (tmp_path / "empty").mkdir()
    assert "no model files" in command("dedupe", "empty").err


def test_audit_as_a_table(command, grid: FactorGraph) -> None:
    ran = command("audit", "--solver", "exact", "grid.uai", "--trials", "1")
    assert ran.status == 0
    head, *rows = ran.out.splitlines()
    assert head.split() == ["SYMMETRY", "CLAIMED", "ERROR", "VERDICT", "LARGEST", "IN"]
    assert [row.split("  ")[0] for row in rows] == ["global", "local variable", "variable assignment"]
    assert all(" yes " in row and " holds" in row for row in rows)


def test_audit_fails_a_false_claim(command, grid: FactorGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.solvers.sampling.gibbs import Gibbs

    monkeypatch.setattr(Gibbs, "symmetries", frozenset(("variable assignment",)))
    ran = command("audit", "--solver", "gibbs", "grid.uai", "--trials", "1", "--json")
    assert ran.status == 1
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["verdict"] for row in rows] == ["not claimed", "holds, not claimed", "CLAIM FAILS"]
    assert rows[2]["where"] == "marginals (MAR) of grid.uai"
    assert rows[2]["solver"] == "gibbs"


def test_audit_of_built_in_graphs_names_what_decides_nothing(command) -> None:
    ran = command("audit", "--solver", "bp", "--task", "MAP", "--trials", "2")
    assert ran.status == 0
    assert "arity 5: rounding alone moves it" in ran.err


def test_audit_leaves_out_built_in_graphs_that_do_not_suit(command, monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor import ModelError
    from equifactor.solvers.elimination.brute import BruteForce

    plain = BruteForce.run_one

    def binary_only(self, graph, task, context):
        if graph.card.max() > 2:
            raise ModelError("made for 2 states")
        return plain(self, graph, task, context)

    monkeypatch.setattr(BruteForce, "run_one", binary_only)
    ran = command("audit", "--solver", "brute", "--trials", "1")
    assert ran.status == 0
    assert "built-in graphs are left out: made for 2 states" in ran.err


@pytest.mark.data
@pytest.mark.skipif("EQUIFACTOR_DATA" not in os.environ, reason="EQUIFACTOR_DATA names no folder")
def test_public_models(command, tmp_path: Path) -> None:
    """One model of every family, up to 1,000 variables, against a relabelling of itself."""
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
