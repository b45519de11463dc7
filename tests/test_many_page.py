"""The examples of docs/many.md print what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "many.md").read_text(encoding="utf-8")


def test_examples_print_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    examples = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(examples) == 4
    for example in examples:
        exec(compile(example, "docs/many.md", "exec", dont_inherit=True), names)
        assert capsys.readouterr().out.splitlines() == re.findall(r"^# (.*)$", example, re.MULTILINE)
