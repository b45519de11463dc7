"""`equifactor demo`: its table and its picture."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from equifactor.cli.demo_command import SOLVERS


def rows_of(out: str) -> list[list[str]]:
    """Return the cells of the lines between the rule and the blank line below the table."""
    lines = out.splitlines()
    rule = next(n for n, line in enumerate(lines) if line.startswith("---"))
    return [line.split() for line in lines[rule + 1 : lines.index("", rule)]]


def test_prints_a_table_and_writes_a_picture(command, tmp_path: Path) -> None:
    ran = command("demo", "-o", "pictures")
    assert ran.status == 0
    assert "Picture: pictures/spin-glass.png" in ran.out
    assert (tmp_path / "pictures" / "spin-glass.png").read_bytes().startswith(b"\x89PNG")
    rows = rows_of(ran.out)
    assert [row[0] for row in rows] == list(SOLVERS) == ["exact", "bp", "bp(damping=0.5)", "fe-nbp", "fe-net"]
    kl = [float(row[2]) for row in rows]
    assert kl[0] == 0.0
    assert kl[1] > kl[2] > kl[3] > kl[4] > 0.0
    assert rows[0][5] == rows[3][5] == rows[4][5]  # the learned solvers find the best assignment


def test_without_matplotlib_there_is_the_table_and_what_to_install(
    command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = command("demo", "-o", "pictures")
    assert ran.status == 0
    assert len(rows_of(ran.out)) == len(SOLVERS)
    assert ran.out.endswith(
        '\nNo picture is drawn: drawing a picture needs matplotlib: pip install "equifactor[plot]"\n'
    )
    assert not (tmp_path / "pictures").exists()


def test_seed_and_folder(command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = command("demo", "--seed", "17", "-o", "file")
    assert "(seed 17)" in ran.out
    assert ran.status == 3
    assert ran.err == "equifactor: file: cannot create this folder: file exists.\n"
