"""The tables of docs/decoding.md; `test_page_examples.py` runs its examples."""

from __future__ import annotations

import dataclasses
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "decoding.md").read_text(encoding="utf-8")


def test_every_setting_has_a_row_with_its_defaults() -> None:
    from equifactor.base.options import format_value
    from equifactor.decoding import METHODS

    settings = PAGE.partition("### Settings\n")[2].partition("\n## ")[0]
    rows = {row.split("|")[1]: row.split("|")[2] for row in settings.splitlines() if row.startswith("| `")}
    for method in METHODS.values():
        for setting in dataclasses.fields(method):
            names = [names for names in rows if f"`{setting.name}`" in names]
            assert names, setting.name
            default = f"{setting.default:g}" if isinstance(setting.default, (int, float)) else setting.default
            text = format_value(setting.default) if isinstance(setting.default, bool) else str(default)
            assert any(text in rows[name] for name in names), (method.name, setting.name, text)
