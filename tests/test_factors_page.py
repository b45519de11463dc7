"""docs/factors.md has every kind, and its example program runs."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from equifactor.graph.kinds import KINDS, kind_name

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "factors.md").read_text(encoding="utf-8")


def test_every_kind_is_on_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(kind_name(number) for number in range(len(KINDS)))


def test_the_example_program(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "diagnosis.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert out.count("before") == 5
    assert "auxiliary variables" in out
