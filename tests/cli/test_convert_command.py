"""`equifactor convert`: one model format to another."""

from __future__ import annotations

from pathlib import Path

import pytest

from equifactor import FactorGraph
from equifactor.io import read_graph


@pytest.mark.parametrize("suffix", ["lg", "fg", "uai.gz", "lg.xz"])
def test_there_and_back(command, grid: FactorGraph, tmp_path: Path, suffix: str) -> None:
    assert command("convert", "grid.uai", f"other.{suffix}").status == 0
    assert command("convert", f"other.{suffix}", "back.uai").status == 0
    back = read_graph(tmp_path / "back.uai")
    assert back.structure.same_as(grid.structure)
    assert back.log_phi == pytest.approx(grid.log_phi, abs=1e-9)


def test_to_stdout_and_by_name(command, grid: FactorGraph, tmp_path: Path) -> None:
    assert command("convert", "grid.uai", "-", "--to", "fg").out.startswith("40\n")
    assert command("convert", "grid.uai", "odd.txt", "--to", "fg").status == 0
    assert command("convert", "odd.txt", "back.uai", "--from", "fg").status == 0
    ran = command("convert", "grid.uai", "odd.unknown")
    assert ran.status == 3
    assert "known formats" in ran.err
    assert command("convert", "grid.uai", "no/folder/x.uai").status == 3


def test_looks_at_the_target_before_it_reads(command, tmp_path: Path) -> None:
    for target, words in (
        ("out.foo", "which format to write"),
        ("missing/out.uai", "no folder"),
        (".", "which format"),
    ):
        ran = command("convert", "missing.uai", target)
        assert ran.status == 3
        assert words in ran.err


def test_names_the_file_that_cannot_hold_the_model(command, grid: FactorGraph) -> None:
    ran = command("convert", "grid.uai", "grid.cnf")
    assert ran.status == 3
    assert ran.err.startswith("equifactor: grid.cnf: factor 16 over 2 variables has different potentials")
    ran = command("convert", "grid.uai", "-", "--to", "cnf")
    assert ran.err.startswith("equifactor: <stdout>: factor 16")
