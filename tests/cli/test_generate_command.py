"""`equifactor generate`: the generators as commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from equifactor import FactorGraph
from equifactor.formats import read_graph
from equifactor.generators import ising_grid


def test_it_is_the_generator(command, tmp_path: Path) -> None:
    flags = ["--rows", "3", "--cols", "4", "--coupling-std", "0.5", "--seed", "7", "--wrap"]
    assert command("generate", "ising", *flags, "-o", "grid.lg").status == 0
    expected = ising_grid(3, 4, coupling_std=0.5, seed=7, wrap=True)
    assert read_graph(tmp_path / "grid.lg").log_phi == pytest.approx(expected.log_phi)
    assert command("generate", "ising", "--rows", "1", "--cols", "1").out.startswith("MARKOV\n1\n2\n1\n1 0\n")


def test_the_list_of_kinds_is_readable(command) -> None:
    out = command("generate", "--help").out
    assert "potts       Potts glasses on a grid" in out
    assert not [line for line in out.splitlines()[1:] if line.endswith("...")]
    assert "Number of states of every variable" in command("generate", "potts", "--help").out


def test_many_into_a_folder(command, tmp_path: Path) -> None:
    ran = command("generate", "potts", "--rows", "2", "--cols", "2", "--count", "12", "-o", "deep/folder")
    assert ran.status == 0
    names = sorted(p.name for p in (tmp_path / "deep" / "folder").iterdir())
    assert names == [f"potts_{n:03}.uai" for n in range(12)]
    assert command("generate", "tree", "--num-vars", "3", "--count", "2", "--to", "fg", "-o", "trees").status == 0
    assert (tmp_path / "trees" / "tree_001.fg").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["ising", "--rows", "3"], 2, "--cols"),
        (["ising", "--rows", "0", "--cols", "3"], 2, "at least 1"),
        (["ising", "--rows", "1000000", "--cols", "1000000"], 2, "table entries"),
        (["tree", "--num-vars", "3", "--card", "many"], 2, "2-5"),
        (["ising", "--rows", "2", "--cols", "2", "--count", "3"], 2, "folder"),
        (["ising", "--rows", "2", "--cols", "2", "--count", "3", "-o", "grid.uai"], 3, "grid.uai"),
        (["ising", "--rows", "2", "--cols", "2", "-o", "no/such.uai"], 3, "no/such.uai"),
        (["ldpc", "--n", "24", "--k", "12", "--decoder", "odd"], 2, "gaussian, mixture"),
    ],
)
def test_says_what_is_wrong(command, grid: FactorGraph, arguments: list[str], status: int, words: str) -> None:
    ran = command("generate", *arguments)
    assert ran.status == status
    assert words in ran.err
    assert ran.err.count("\n") == 1
