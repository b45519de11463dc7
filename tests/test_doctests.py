"""The examples in the docstrings of the package give the printed results."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "equifactor"


def module_name(path: Path) -> str:
    """Return the module of a path: `equifactor.formats.words` for `equifactor/formats/words.py`."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


WITH_EXAMPLES = [module_name(p) for p in sorted(PACKAGE.rglob("*.py")) if ">>> " in p.read_text(encoding="utf-8")]


def test_there_are_examples() -> None:
    assert "equifactor" in WITH_EXAMPLES
    assert "equifactor.graph.factor_graph" in WITH_EXAMPLES


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_are_right(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted
    assert not result.failed
