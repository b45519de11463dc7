"""Every block of code in README.md, CONTRIBUTING.md and docs/ runs, or is marked; see page_blocks.py."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path

import pytest
from page_blocks import PAGES, Block, blocks, run_command, run_python

import equifactor as ef
from equifactor.page import opening
from equifactor.page.page_server import PageServer
from equifactor.solving import plugins, registry

RUN = {"python", "sh", "console"}
PEERS = ("pgmpy", "pyagrum", "torch_geometric", "networkx")


def _page(page: str) -> list[Block]:
    return [block for block in blocks(page) if block.language in RUN or "file" in block.marks]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a reader, with a browser that shows every page and is closed at once."""

    def closed(server: PageServer, seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PageServer, "serve_forever", closed)
    monkeypatch.setattr(opening, "browse", lambda url: True)
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(plugins._MODULE):
            del sys.modules[name]


def _run(page: str, capsys: pytest.CaptureFixture[str], *, peers: bool) -> None:
    names: dict[str, object] = {"__name__": "page"}
    for block in _page(page):
        needs = block.marks.get("needs")
        if "file" in block.marks:
            Path(block.marks["file"]).write_text(block.text, encoding="utf-8")
        elif "not run" in block.marks or (needs and not (peers and find_spec(needs))):
            continue
        elif block.language == "python":
            capsys.readouterr()
            run_python(block, names)
            if block.printed:
                found = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
                assert found == block.printed, block.where
        else:
            for command in block.commands:
                run_command(command)
            assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("page", [page for page in PAGES if _page(page)])
@pytest.mark.usefixtures("folder")
def test_a_page_runs_from_top_to_bottom(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    _run(page, capsys, peers=False)
