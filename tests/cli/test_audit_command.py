"""`equifactor audit`: claims of symmetry compared with measurements."""

from __future__ import annotations

import json

import pytest

from equifactor import FactorGraph


def test_as_a_table(command, grid: FactorGraph) -> None:
    ran = command("audit", "--solver", "exact", "grid.uai", "--trials", "1")
    assert ran.status == 0
    head, *rows = ran.out.splitlines()
    assert head.split() == ["SYMMETRY", "CLAIMED", "ERROR", "VERDICT", "LARGEST", "IN"]
    assert [row.split("  ")[0] for row in rows] == ["global", "local variable", "variable assignment"]
    assert all(" yes " in row and " holds" in row for row in rows)


def test_fails_a_false_claim(command, grid: FactorGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.solvers.sampling.gibbs import Gibbs

    monkeypatch.setattr(Gibbs, "symmetries", frozenset(("variable assignment",)))
    ran = command("audit", "--solver", "gibbs", "grid.uai", "--trials", "1", "--json")
    assert ran.status == 1
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["verdict"] for row in rows] == ["not claimed", "holds, not claimed", "CLAIM FAILS"]
    assert rows[2]["where"] == "marginals (MAR) of grid.uai"
    assert rows[2]["solver"] == "gibbs"


def test_of_built_in_graphs_names_what_decides_nothing(command) -> None:
    ran = command("audit", "--solver", "bp", "--task", "MAP", "--trials", "2")
    assert ran.status == 0
    assert "arity 5: not counted, because rounding alone changes the answer" in ran.err


def test_leaves_out_built_in_graphs_that_do_not_suit(command, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_bad_input(command, grid: FactorGraph) -> None:
    assert command("audit", "--solver", "nope").status == 2
    assert command("audit", "--solver", "bp", "none.uai").status == 3
    assert command("audit", "--solver", "gibbs", "--task", "MAP", "grid.uai").status == 2
    assert command("audit", "--dtype", "float16").status == 2
