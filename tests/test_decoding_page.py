"""The examples of docs/decoding.md run as printed."""

from __future__ import annotations

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
