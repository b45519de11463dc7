"""The end of the command: every failure prints one sentence and has an exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from equifactor import FactorGraph

pytestmark = pytest.mark.usefixtures("plain_numpy")


def test_a_bug_is_one_sentence_too(command, grid: FactorGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **options: object) -> None:
        raise ZeroDivisionError("oops")

    # By the name of the module: `equifactor.questions.solve` as an attribute is the function.
    monkeypatch.setattr(import_module("equifactor.questions.solve"), "solve", broken)
    ran = command("solve", "grid.uai")
    assert ran.status == 70
    assert "please report it: ZeroDivisionError: oops" in ran.err


@pytest.mark.parametrize(("error", "status"), [(MemoryError(), 3), (RecursionError(), 3), (KeyboardInterrupt(), 130)])
def test_other_endings(
    command, grid: FactorGraph, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("equifactor.formats.read_graph", fail)
    ran = command("solve", "grid.uai")
    assert (ran.status, ran.out) == (status, "")
    assert ran.err.count("\n") == 1


def test_ctrl_c_while_the_command_is_imported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    from equifactor import cli

    def interrupted(args: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("equifactor.cli.app.run", interrupted)
    assert cli.main(["solve"]) == 130
    assert capsys.readouterr().err == "equifactor: interrupted\n"


@pytest.mark.parametrize("module", ["equifactor.cli", "equifactor.base.errors", "typer"])
def test_ctrl_c_during_an_import_of_the_command(module: str) -> None:
    program = f"""
import runpy, sys
class Interrupts:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts)
runpy.run_module("equifactor", run_name="__main__", alter_sys=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 130
    assert done.stderr in ("", "equifactor: interrupted\n")


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_closed_pipe_is_quiet(process, grid: FactorGraph) -> None:
    with process("solve", *["grid.uai"] * 200, "--json") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert json.loads(running.stdout.readline())["model"] == "grid.uai"
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait() == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_sentence(grid: FactorGraph, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "equifactor", "solve", "grid.uai"],
            cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=600,
        )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == "equifactor: <stdout>: no space left on device\n"
