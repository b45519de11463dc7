"""Every block of code in README.md and docs/ runs as printed, or tells the reader why it cannot; see page_blocks.py."""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import pytest
from page_blocks import PAGES, ROOT, blocks, run_page

import equifactor as ef
from equifactor.page import opening
from equifactor.page.page_server import PageServer
from equifactor.solving import plugins, registry

MARKS = {"not run", "needs", "file", "data"}
# Pages whose commands start processes, which need not load the compiler for small models.
IN_PROCESSES = {"docs/evaluate.md", "docs/view.md"}


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in a new folder, with a browser that opens every page and a reader who closes it at once."""
    serve_forever = PageServer.serve_forever

    def close(server: PageServer, poll_interval: float = 0.1) -> None:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        serve_forever(server, poll_interval)

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(PageServer, "serve_forever", close)
    monkeypatch.setattr(opening, "browse", lambda url: True)
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(plugins._MODULE) or _is_inside(getattr(sys.modules[name], "__file__", None), tmp_path):
            del sys.modules[name]


def _is_inside(file: str | None, folder: Path) -> bool:
    return file is not None and Path(file).is_relative_to(folder)


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_a_page_runs(page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if page in IN_PROCESSES:
        monkeypatch.setenv("EQUIFACTOR_PLAIN", "1")
    run_page(page)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize("page", [page for page in PAGES if any("needs" in block.marks for block in blocks(page))])
def test_a_page_runs_beside_other_libraries(page: str) -> None:
    run_page(page, peers=True)


@pytest.mark.parametrize("page", PAGES)
def test_a_reader_learns_what_does_not_run(page: str) -> None:
    for block in blocks(page):
        assert set(block.marks) <= MARKS
        assert block.marks.get("not run", "") in block.section, f"{page}:{block.line}"


def test_every_block_is_found() -> None:
    """A fence that is indented, or that has text behind the language, would be overlooked."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        runnable = [b for b in blocks(page) if b.language in ("python", "sh", "console")]
        assert len(re.findall(r"^\s*(?:```|~~~) *(?:py|sh|bash|console|shell)", text, re.MULTILINE)) == len(runnable)
        assert len(re.findall(r"<!-- [a-z ]+: ", text)) == sum(len(block.marks) for block in blocks(page)), page


@pytest.mark.parametrize("page", PAGES)
def test_names_in_examples_exist(page: str) -> None:
    """Also in examples that need data, other packages or a GPU."""
    for block in blocks(page):
        for node in ast.walk(ast.parse(block.text)) if block.language == "python" else ():
            if isinstance(node, ast.Attribute) and re.fullmatch(r"ef(\.\w+)+", ast.unparse(node)):
                attrgetter(ast.unparse(node).partition(".")[2])(ef)  # raises if a name does not exist
