"""The command as a whole: its subcommands, their help texts and wrong usage."""

from __future__ import annotations

import shlex

import pytest

from equifactor import __version__
from equifactor.cli.app import app
from equifactor.generators import GENERATORS

NAMES = (
    "solve sample info convert generate solvers fit train model evaluate decode isomorphic dedupe audit download demo "
    "doctor view compare large"
)


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["slove"], "there is no command 'slove'; did you mean solve? choose from: solve"),
        (["generate", "isng"], "there is no command 'isng'; did you mean ising? choose from: ising"),
        (["solve", "--slover", "bp"], "there is no option --slover; did you mean --solver? (see equifactor"),
        (["solve", "--xyzzy"], "there is no option --xyzzy (see"),
        (["solve", "x.uai", "--solver", "bpp"], "did you mean bp?"),
        (["solve", "x.uai", "--solver", "bp(dampin=1)"], "did you mean damping?"),
        (["solve", "x.uai", "--solver", "bp(schedule=residal)"], "did you mean residual?"),
        (["convert", "x.uai", "y", "--to", "wscp"], "did you mean wcsp?"),
        (["train", "fe-nte", "--data", "ising(3x3)", "-o", "x.safetensors"], "did you mean fe-net?"),
        (["train", "fe-net", "--data", "isnig(3x3)", "-o", "x.safetensors"], "did you mean ising?"),
        (["download", "x", "--collection", "Grid"], "did you mean Grids?"),
        (["decode", "bb72", "--sample", "5", "--method", "bp-ods"], "did you mean bp-osd?"),
    ],
)  # fmt: skip
def test_the_nearest_name_is_named(command, arguments: list[str], words: str) -> None:
    ran = command(*arguments)
    assert ran.status == 2
    assert words in ran.err
