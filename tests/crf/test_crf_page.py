"""The examples of docs/crf.md print what the page says, and the example programs beat networks without neighbours."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "crf.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=[str(n) for n in range(len(EXAMPLES))])
def test_examples_print_what_they_say(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(example, "docs/crf.md", "exec", dont_inherit=True), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^# (.*)$", example, re.MULTILINE)


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("tagging", ["--steps", "60"]),
        ("denoising", ["--size", "6", "--steps", "30", "--batch", "8"]),
        pytest.param("denoising", ["--size", "4", "--steps", "25", "--loss", "marginals"], marks=pytest.mark.slow),
    ],
)
def test_the_programs_learn(program: str, arguments: list[str]) -> None:
    right = list(runpy.run_path(str(ROOT / "examples" / f"{program}.py"))["main"](arguments).values())
    assert right[1] > right[0] + 0.02
    assert right[2] > right[0] + 0.02
