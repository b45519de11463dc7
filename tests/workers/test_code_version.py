"""The hash of the code covers the sources and the weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from equifactor import __version__
from equifactor.workers import code_version


@pytest.mark.parametrize("changed", ["solver.py", "solvers/learned/weights/net.safetensors"])
def test_code_changes_with_every_source_and_weight_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    monkeypatch.setattr(code_version, "PACKAGE", tmp_path)
    (tmp_path / changed).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / changed).write_text("before")
    before = code_version.code_version.__wrapped__()
    (tmp_path / changed).write_text("after")
    assert code_version.code_version.__wrapped__() != before
    assert before.startswith(f"{__version__}+")
