"""`equifactor info`: what is in a model, in words and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

from equifactor import FactorGraph


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
