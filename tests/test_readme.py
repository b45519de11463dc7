"""The examples of the README run as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import equifactor as ef

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_opens_with_what_it_is_and_the_two_commands() -> None:
    lines = [line for line in README.splitlines() if line]
    assert lines[0] == "# equifactor"
    assert [line for line in lines if line.startswith("$ ")] == ["$ make demo", "$ make test"]
    assert README.index("make test") < README.index("```python") < README.index("```sh")


def test_python_example_runs_and_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    example = blocks("python")[0]
    assert len(example.strip().splitlines()) == 10
    exec(compile(example, "README.md", "exec", dont_inherit=True), {})
    printed = capsys.readouterr().out
    p_wet = 0.8 * 0.4 * 0.9 + 0.2 * (0.99 * 0.8 + 0.01 * 0.99)
    assert "MAR by auto: exact" in printed
    assert f"{0.2 * (0.99 * 0.8 + 0.01 * 0.99) / p_wet:.8f}" in printed


def test_command_line_example_runs(tmp_path: Path) -> None:
    example = blocks("sh")[0]
    assert len(example.strip().splitlines()) == 10
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-e", "-c", example], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.count("MAR\n") == 1
    assert (tmp_path / "grid.MAP").read_text().startswith("MAP\n25 ")
    assert len((tmp_path / "trees.jsonl").read_text().splitlines()) == 3


def test_solver_example_registers_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor import registry as spec

    monkeypatch.setattr(spec, "_REGISTRY", dict(spec._REGISTRY))
    exec(compile(blocks("python")[1], "README.md", "exec", dont_inherit=True), {"__name__": __name__})
    result = ef.solve(ef.FactorGraph([2, 4]), "MAR", "uniform")
    assert result.status.solved
    assert result.marginals is not None
    assert result.marginals[1].tolist() == [0.25] * 4


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", README):
        assert (ROOT / target).is_file(), target


def test_tables_name_every_solver_format_and_exit_status() -> None:
    from equifactor.cli.exit_status import Exit
    from equifactor.io import FORMATS
    from equifactor.registry import SOLVERS

    for name in SOLVERS:
        assert f"| `{name}` |" in README
    for suffix in (s for f in FORMATS.values() for s in f.suffixes):
        assert f"`{suffix}`" in README
    for status in set(Exit) - {Exit.PIPE_CLOSED, Exit.BUG}:
        assert f"\n| {status.value} |" in README
