"""The examples of docs/decoding.md run as printed."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "decoding.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "plot" in example:
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/decoding.md", "exec", dont_inherit=True), {})


def test_every_setting_has_a_row_with_its_defaults() -> None:
    from equifactor.base.options import format_value
    from equifactor.decoding import METHODS

    rows = {row.split("|")[1]: row.split("|")[2] for row in PAGE.splitlines() if row.startswith("| `")}
    for method in METHODS.values():
        for setting in dataclasses.fields(method):
            names = [names for names in rows if f"`{setting.name}`" in names]
            assert names, setting.name
            default = f"{setting.default:g}" if isinstance(setting.default, (int, float)) else setting.default
            text = format_value(setting.default) if isinstance(setting.default, bool) else str(default)
            assert any(text in rows[name] for name in names), (method.name, setting.name, text)
