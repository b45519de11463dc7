"""`equifactor info`: the contents of a model, in words and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

from equifactor import FactorGraph, write_graph


def test_in_words(command, grid: FactorGraph) -> None:
    out = command("info", "grid.uai").out
    facts = dict(re.split(r"\s{2,}", line.strip()) for line in out.splitlines()[1:])
    assert facts["variables"] == "16"
    assert facts["factors"] == "40"
    assert facts["components"] == "1"
    assert facts["width estimate"] == "4"
    assert facts["largest exact table"] == "2^5.0 entries"
    assert {"cardinality", "arity", "zeros", "memory for exact"} <= set(facts)


def test_as_json_for_many_models_with_evidence(command, grid: FactorGraph, tmp_path: Path) -> None:
    (tmp_path / "row.evid").write_text("4 4 0 5 0 6 0 7 0")
    ran = command("info", "grid.uai", "grid.uai", "-e", "row.evid", "--json")
    row, same = [json.loads(line) for line in ran.out.splitlines()]
    assert row == same
    assert (row["variables"], row["observed"], row["components"]) == (16, 4, 2)  # a row apart, and two rows
    assert row["cardinalities"] == {"2": 16}
    assert row["arities"]["2"] == 24 - 3 - 8
    assert row["width"] == 2


def test_kinds_and_what_tables_would_cost(command, tmp_path: Path) -> None:
    literals = " ".join(map(str, range(1, 31)))
    (tmp_path / "long.cnf").write_text(f"p cnf 30 3\n{literals} 0\n1 2 0\n-3 0\n")
    facts = dict(re.split(r"\s{2,}", line.strip()) for line in command("info", "long.cnf").out.splitlines()[1:])
    assert facts["factors of kind clause"] == "2"
    assert facts["factors of kind table"] == "1"
    assert (facts["table entries"], facts["zeros"]) == ("2", "1 (50.0% of entries)")
    assert facts["numbers of other kinds"] == "34"  # two values, and a sign for each of 32 literals
    assert facts["in tables for exact"].startswith("29 auxiliary variables, ")
    row = json.loads(command("info", "long.cnf", "--json").out)
    assert row["kinds"] == {"table": 1, "clause": 2}
    assert (row["entries"], row["zeros"], row["numbers_of_other_kinds"]) == (2, 1, 34)
    assert row["lowered_variables"] == 29
    assert row["lowered_entries"] > 200
    assert row["width"] == 2


def test_what_cannot_be_written_in_tables_is_described_all_the_same(command, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("equifactor.factors.lowered_graph._MAX_ENTRIES", 100)
    literals = " ".join(map(str, range(1, 31)))
    (tmp_path / "long.cnf").write_text(f"p cnf 30 1\n{literals} 0\n")
    ran = command("info", "long.cnf")
    assert ran.status == 0
    assert "factors of kind clause  1" in ran.out
    assert "In dense tables the factors would have at least" in ran.out
    assert json.loads(command("info", "long.cnf", "--json").out)["exact_bytes"] is None


def test_variables_and_their_states(command, grid: FactorGraph, tmp_path: Path) -> None:
    graph = FactorGraph({"rain": ["no", "yes"], "lawn": ["dry", "very wet"]}, [(["rain", "lawn"], [[1, 2], [3, 4]])])
    write_graph(graph, tmp_path / "lawn.cfn")
    ran = command("info", "lawn.cfn", "--variables", "-e", "lawn=very wet")
    assert ran.out.splitlines()[1:3] == ["variable  states", "----------------"]
    assert ran.out.splitlines()[3:] == ["rain      no, yes", "lawn      dry, very wet*", "* observed"]
    row = json.loads(command("info", "lawn.cfn", "--variables", "--json", "-e", "rain=yes").out)
    assert row["variables"] == {"rain": ["no", "yes"], "lawn": ["dry", "very wet"]}
    assert row["observed"] == {"rain": "yes"}
    assert "15        0, 1" in command("info", "grid.uai", "--variables").out
