"""The examples of docs/questions.md print what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "questions.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=[str(n) for n in range(len(EXAMPLES))])
def test_examples_print_what_they_say(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "to_frame" in example:
        pytest.importorskip("pandas")
    exec(compile(example, "docs/questions.md", "exec", dont_inherit=True), {})
    said = re.findall(r"^# (.*)$", example, re.MULTILINE)
    assert said
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == said
