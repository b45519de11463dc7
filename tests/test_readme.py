"""The README is short and its example is right; the tables that left it for other pages are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


README = read("README.md")


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_opens_with_what_it_is_and_the_two_commands() -> None:
    lines = [line for line in README.splitlines() if line]
    assert lines[0] == "# equifactor"
    assert [line for line in lines if line.startswith("$ ")] == ["$ make demo", "$ make test"]
    assert README.index("![") < README.index("make test") < README.index("```python")
    assert len(lines) < 70  # the README is short


def test_python_example_runs_and_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    example = blocks("python", README)[0]
    assert len(example.strip().splitlines()) == 10
    exec(compile(example, "README.md", "exec", dont_inherit=True), {})
    printed = capsys.readouterr().out
    p_wet = 0.8 * 0.4 * 0.9 + 0.2 * (0.99 * 0.8 + 0.01 * 0.99)
    assert "MAR by auto: exact" in printed
    assert f"{0.2 * (0.99 * 0.8 + 0.01 * 0.99) / p_wet:.8f}" in printed


def test_every_solver_format_status_and_exit_status_is_on_its_page() -> None:
    from equifactor.base.status import Status
    from equifactor.cli.exit_status import Exit
    from equifactor.formats import FORMATS
    from equifactor.solving.registry import SOLVERS

    solvers, formats, command = read("docs/solvers/index.md"), read("docs/formats.md"), read("docs/command-line.md")
    for name in SOLVERS:
        assert solvers.count(f"| `{name}` |") == 1, name
    for suffix in (s for f in FORMATS.values() for s in f.suffixes):
        assert f"`{suffix}`" in formats.lower(), suffix
    for exit_status in set(Exit) - {Exit.PIPE_CLOSED, Exit.BUG}:
        assert f"\n| {exit_status.value} |" in command
    for status in Status:
        assert f"`{status}`" in command, status
