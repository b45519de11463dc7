"""The notebooks of docs/tutorials have no outputs, their links work, and they run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from test_public_api import private_uses

from tools.run_tutorials import NAMES, SOURCES, CellError, build, cells

WIDTH = 100


def test_every_notebook_is_known() -> None:
    assert {path.stem for path in SOURCES.glob("*.ipynb")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_are_plain(name: str) -> None:
    notebook = json.loads((SOURCES / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in notebook["cells"]:
        assert cell["cell_type"] == "markdown" or (cell["outputs"] == [] and cell["execution_count"] is None)
    code = "\n".join(source for kind, source in cells(name) if kind == "code")
    assert not re.search(r"^\s*[%!]", code, re.MULTILINE)
    assert not list(private_uses(code))
    assert "plot" in code or "show(" in code


@pytest.mark.parametrize("name", NAMES)
def test_text_wraps_and_links_lead_somewhere(name: str) -> None:
    prose = "\n".join(source for kind, source in cells(name) if kind == "markdown")
    assert prose.startswith("# ")
    assert "## Where next" in prose
    assert max(map(len, prose.splitlines())) <= WIDTH
    assert len(re.findall(r"^#", prose, re.MULTILINE)) == len(set(re.findall(r"^#.*$", prose, re.MULTILINE)))
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", prose):
        assert (SOURCES / target).exists(), target
    for program in re.findall(r"`(examples/\w+\.py)`", prose):
        assert (SOURCES.parents[1] / program).exists(), program


def test_a_cell_that_raises_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    sources = [
        ["# A title\n"],
        ["print('hello')\n", "{1: 2}"],
        ["import warnings\n", "warnings.warn('not so', stacklevel=1)"],
    ]
    made = [{"cell_type": "code" if n else "markdown", "source": source} for n, source in enumerate(sources)]
    notebook = tmp_path / "bad.ipynb"
    notebook.write_text(json.dumps({"cells": made}), encoding="utf-8")
    monkeypatch.setattr("tools.run_tutorials.SOURCES", tmp_path)
    with pytest.raises(CellError, match="bad, cell 3: UserWarning: not so"):
        build(["bad"], tmp_path)
    notebook.write_text(json.dumps({"cells": made[:2]}), encoding="utf-8")
    build(["bad"], tmp_path)
    page = (tmp_path / "bad.md").read_text(encoding="utf-8")
    assert page.startswith("# A title\n\n```python\nprint('hello')\n")
    assert page.endswith("```text\nhello\n```\n\n```text\n{1: 2}\n```\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_notebooks_run(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("torch")
    build([name], tmp_path)
    page = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    pictures = re.findall(r"\]\((\S+\.png)\)", page)
    assert pictures
    assert all((tmp_path / picture).stat().st_size > 1000 for picture in pictures)
