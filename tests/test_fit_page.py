"""The examples of docs/fit.md print what the page says, and the page has every method and every setting."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from equifactor.fitting.fitter import METHODS, method_class

PAGE = (Path(__file__).parents[1] / "docs" / "fit.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=[str(n) for n in range(len(EXAMPLES))])
def test_examples_print_what_they_say(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(example, "docs/fit.md", "exec", dont_inherit=True), {})
    said = re.findall(r"^# (.*)$", example, re.MULTILINE)
    assert said
    assert capsys.readouterr().out.splitlines() == said


def test_every_method_is_on_the_page() -> None:
    section = PAGE.split("## Data")[0]
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)) == sorted(METHODS)


def test_the_settings_of_em_are_on_the_page() -> None:
    section = PAGE.split("**EM.**")[1].split("**Ties")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]+)`? \|", section, re.MULTILINE))
    fields = {f.name: f.default for f in dataclasses.fields(method_class("em"))}
    assert list(rows) == list(fields)
    for name, text in rows.items():
        assert text.strip() == str(fields[name]) or float(text) == fields[name]
