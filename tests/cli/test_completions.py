"""The words that shells offer when the tab key is pressed, asked for by their environment variables."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from equifactor import FactorGraph


@pytest.fixture
def tab(command, monkeypatch: pytest.MonkeyPatch):
    """Return a function such that `tab("solve --task M")` returns the words that bash would offer."""

    def press(line: str, shell: str = "bash") -> list[str]:
        words = shlex.split(f"equifactor {line}") + ([""] if line.endswith(" ") else [])
        with monkeypatch.context() as environment:
            environment.setenv("_EQUIFACTOR_COMPLETE", f"complete_{shell}")
            environment.setenv("COMP_WORDS", f"equifactor {line}")
            environment.setenv("COMP_CWORD", str(len(words) - 1))
            environment.setenv("_TYPER_COMPLETE_ARGS", f"equifactor {line}")
            environment.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
            ran = command()
        assert ran.status == 0
        return ran.out.split("\n")[:-1] if ran.out.strip() else []

    return press


def test_commands(tab) -> None:
    assert tab("so") == ["solve", "solvers"]
    assert {"ising", "noisy-or"} <= set(tab("generate "))


def test_options(tab) -> None:
    assert tab("solve --ta") == ["--task"]
    assert "--num-vars" in tab("generate tree --")


def test_values(tab) -> None:
    assert tab("solve --task M") == ["MAR", "MAP", "MMAP"]
    assert tab("solve --task m") == ["mar", "map", "mmap"]
    assert tab("solve --solver lo") == ["local-search", "loop-bp"]
    assert tab("evaluate --solver exa") == ["exact"]
    assert tab("solvers mea") == ["meanfield"]
    assert tab("train fe-n") == ["fe-nbp", "fe-net"]
    assert tab("convert --to xm") == ["xmlbif"]
    assert tab("decode bb") == ["bb72", "bb144"]
    assert tab("decode bb72 --method bp-o") == ["bp-osd"]
    assert tab("fit --method l") == ["likelihood"]
    assert tab("download --collection Grids,D") == ["Grids,DBN"]


def test_files(tab, grid: FactorGraph) -> None:
    Path("notes.txt").touch()
    Path("models").mkdir()
    assert tab("info g") == ["grid.uai"]
    assert tab("info ") == ["grid.uai", "models/"]
    for name in ("a.bif", "b.uai.gz", "c.csv"):
        (Path("models") / name).touch()
    assert tab("info mo") == ["models/a.bif", "models/b.uai.gz"]
    assert tab("info no") == []
    assert tab("info nowhere/") == []
    Path("mine.safetensors").touch()
    assert tab("solve grid.uai --solver m") == ["meanfield", "mini-buckets", "mplp", "mine.safetensors", "models/"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(tab, shell: str) -> None:
    offered = "\n".join(tab("solvers mea", shell))
    assert "meanfield" in offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(command, shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    shown = command("--show-completion", shell)
    assert shown.status == 0
    assert f"_EQUIFACTOR_COMPLETE=complete_{shell}" in shown.out
    installed = command("--install-completion", shell)
    assert installed.status == 0
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(shown.out.strip() in text for text in written)
