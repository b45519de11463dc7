from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from equifactor import FactorGraph, __version__
from equifactor.cli.app import app
from equifactor.generators import GENERATORS, ising_grid
from equifactor.io import read_graph

NAMES = "solve info convert generate solvers train model evaluate isomorphic dedupe audit download demo"
SUBCOMMANDS = [[name] for name in NAMES.split()]
HELPS = [[], *SUBCOMMANDS, *(["generate", kind] for kind in GENERATORS)]


def test_version(command) -> None:
    assert command("--version").out == f"equifactor {__version__}\n"


def test_every_subcommand_is_known_here() -> None:
    names = {c.name for c in app.registered_commands} | {g.name for g in app.registered_groups}
    assert names == {s[0] for s in SUBCOMMANDS}


@pytest.mark.parametrize("subcommand", HELPS, ids=" ".join)
def test_help_ends_with_an_example_that_works(command, write_model, subcommand: list[str]) -> None:
    ran = command(*subcommand, "--help")
    assert ran.status == 0
    _, marker, example = ran.out.rpartition("\n  Example:\n")
    assert marker
    lines = example.strip().splitlines()
    if subcommand == ["model"]:
        write_model("mine.safetensors")
    for line in lines:
        name, *arguments = shlex.split(line)
        assert name == "equifactor"
        done = command(*arguments)
        assert done.status == 0, done.err
    assert " ".join(subcommand) in lines[-1]


@pytest.mark.parametrize("arguments", [[], ["generate"]])
def test_no_arguments_show_the_help_and_exit_2(command, arguments: list[str]) -> None:
    ran = command(*arguments)
    assert ran.status == 2
    assert ran.err.startswith("Usage: equifactor")


@pytest.mark.parametrize("arguments", [["frobnicate"], ["generate", "nope"], ["convert", "a.uai"], ["info"]])
def test_wrong_usage_exits_2(command, arguments: list[str]) -> None:
    ran = command(*arguments)
    assert ran.status == 2
    assert ran.err.startswith("equifactor: ")
    assert "--help)" in ran.err


# ---- info -----------------------------------------------------------------------------------------------


def test_info_in_words(command, grid: FactorGraph) -> None:
    out = command("info", "grid.uai").out
    facts = dict(re.split(r"\s{2,}", line.strip()) for line in out.splitlines()[1:])
    assert facts["variables"] == "16"
    assert facts["factors"] == "40"
    assert facts["components"] == "1"
    assert facts["width estimate"] == "4"
    assert facts["largest exact table"] == "2^5.0 entries"
    assert {"cardinality", "arity", "zeros", "memory for exact"} <= set(facts)


def test_info_as_json_for_many_models_with_evidence(command, grid: FactorGraph, tmp_path: Path) -> None:
    (tmp_path / "row.evid").write_text("4 4 0 5 0 6 0 7 0")
    ran = command("info", "grid.uai", "grid.uai", "-e", "row.evid", "--json")
    row, same = [json.loads(line) for line in ran.out.splitlines()]
    assert row == same
    assert (row["variables"], row["observed"], row["components"]) == (16, 4, 2)  # a row apart, and two rows
    assert row["cardinalities"] == {"2": 16}
    assert row["arities"]["2"] == 24 - 3 - 8
    assert row["width"] == 2


# ---- convert and generate -------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["lg", "fg", "uai.gz", "lg.xz"])
def test_convert_there_and_back(command, grid: FactorGraph, tmp_path: Path, suffix: str) -> None:
    assert command("convert", "grid.uai", f"other.{suffix}").status == 0
    assert command("convert", f"other.{suffix}", "back.uai").status == 0
    back = read_graph(tmp_path / "back.uai")
    assert back.structure.same_as(grid.structure)
    assert back.log_phi == pytest.approx(grid.log_phi, abs=1e-9)


def test_convert_to_stdout_and_by_name(command, grid: FactorGraph, tmp_path: Path) -> None:
    assert command("convert", "grid.uai", "-", "--to", "fg").out.startswith("40\n")
    assert command("convert", "grid.uai", "odd.txt", "--to", "fg").status == 0
    assert command("convert", "odd.txt", "back.uai", "--from", "fg").status == 0
    ran = command("convert", "grid.uai", "odd.unknown")
    assert ran.status == 3
    assert "known formats" in ran.err
    assert command("convert", "grid.uai", "no/folder/x.uai").status == 3


def test_generate_is_the_generator(command, tmp_path: Path) -> None:
    flags = ["--rows", "3", "--cols", "4", "--coupling-std", "0.5", "--seed", "7", "--wrap"]
    assert command("generate", "ising", *flags, "-o", "grid.lg").status == 0
    expected = ising_grid(3, 4, coupling_std=0.5, seed=7, wrap=True)
    assert read_graph(tmp_path / "grid.lg").log_phi == pytest.approx(expected.log_phi)
    assert command("generate", "ising", "--rows", "1", "--cols", "1").out.startswith("MARKOV\n1\n2\n1\n1 0\n")


def test_generate_many_into_a_folder(command, tmp_path: Path) -> None:
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
def test_generate_says_what_is_wrong(command, grid: FactorGraph, arguments: list[str], status: int, words: str) -> None:
    ran = command("generate", *arguments)
    assert ran.status == status
    assert words in ran.err
    assert ran.err.count("\n") == 1


# ---- solvers and demo -----------------------------------------------------------------------------------


def test_solvers_lists_each_and_its_options(command) -> None:
    from equifactor import solver_names
    from equifactor.registry import solver_class

    lines = command("solvers").out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", *solver_names()]
    for name in solver_names():
        out = command("solvers", name).out
        assert solver_class(name).summary() in out
    assert re.search(r"^damping +float +0.0 +0 <= x < 1 +\S", command("solvers", "bp").out, re.MULTILINE)
    assert command("solvers", "pb").status == 2


def test_demo_prints_a_table_and_writes_a_picture(command, tmp_path: Path) -> None:
    ran = command("demo", "-o", "pictures")
    assert ran.status == 0
    assert "Picture: pictures/spin-glass.png" in ran.out
    assert (tmp_path / "pictures" / "spin-glass.png").read_bytes().startswith(b"\x89PNG")
    rows = [line.split() for line in ran.out.splitlines() if line.startswith(("exact", "bp"))]
    assert [row[0] for row in rows] == ["exact", "bp", "bp(damping=0.5)"]
    kl = [float(row[2]) for row in rows]
    assert kl[0] == 0.0
    assert kl[2] < kl[1]
    assert rows[0][5] == rows[2][5]  # damped BP finds the best assignment


def test_demo_without_matplotlib_says_so(command, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = command("demo", "-o", "pictures")
    assert ran.status == 2
    assert 'pip install "equifactor[plot]"' in ran.err


def test_convert_looks_at_the_target_before_it_reads(command, tmp_path: Path) -> None:
    for target, words in (
        ("out.foo", "which format to write"),
        ("missing/out.uai", "no folder"),
        (".", "which format"),
    ):
        ran = command("convert", "missing.uai", target)
        assert ran.status == 3
        assert words in ran.err


def test_convert_names_the_file_that_cannot_hold_the_model(command, grid: FactorGraph) -> None:
    ran = command("convert", "grid.uai", "grid.cnf")
    assert ran.status == 3
    assert ran.err.startswith("equifactor: grid.cnf: factor 16 over 2 variables has different potentials")
    ran = command("convert", "grid.uai", "-", "--to", "cnf")
    assert ran.err.startswith("equifactor: <stdout>: factor 16")
