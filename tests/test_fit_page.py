"""docs/fit.md has every method and every setting."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from equifactor.learning.fitting.fitter import METHODS, method_class

PAGE = (Path(__file__).parents[1] / "docs" / "fit.md").read_text(encoding="utf-8")


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
