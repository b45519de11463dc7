"""The examples of docs/factors.md print what the page says, and the page has every kind; the example program runs."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from equifactor.factors.kinds import KINDS, kind_name

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "factors.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=[str(n) for n in range(len(EXAMPLES))])
def test_examples_print_what_they_say(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(example, "docs/factors.md", "exec", dont_inherit=True), {})
    said = re.findall(r"^# (.*)$", example, re.MULTILINE)
    assert said
    assert capsys.readouterr().out.splitlines() == said


def test_every_kind_is_on_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(kind_name(number) for number in range(len(KINDS)))


def test_the_example_program(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "diagnosis.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert out.count("before") == 5
    assert "auxiliary variables" in out
