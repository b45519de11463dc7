"""The examples of pages under docs/ print what their comments show."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("crf", "factors", "fit", "interop", "notebooks", "questions")  # every example stands on its own
STORIES = (
    "auto",
    "factor-graphs",
    "formats",
    "index",
    "many",
    "networks",
    "start",
    "trust",
)  # examples go on from those before
PEERS = ("pgmpy", "pyagrum", "torch_geometric")


def examples(page: str) -> list[str]:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def peer_of(example: str) -> str | None:
    return next((peer for peer in PEERS if re.search(rf"^(import|from) {peer}\b", example, re.MULTILINE)), None)


def cases() -> list:
    marks = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]
    return [
        pytest.param(page, example, id=f"{page}-{n}", marks=marks if peer_of(example) else [])
        for page in PAGES
        for n, example in enumerate(examples(page))
    ]


def run(page: str, example: str, names: dict[str, object]) -> None:
    exec(compile(example, f"docs/{page}.md", "exec", dont_inherit=True), names)


def said(example: str) -> list[str]:
    return re.findall(r"^# (.*)$", example, re.MULTILINE)


@pytest.mark.parametrize(("page", "example"), cases())
def test_an_example_prints_what_it_says(page: str, example: str, capsys: pytest.CaptureFixture[str]) -> None:
    peer = "pandas" if "to_frame" in example else peer_of(example)
    if peer is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its imports
            pytest.importorskip(peer)
    capsys.readouterr()
    run(page, example, {})
    assert said(example)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == said(example)


@pytest.mark.parametrize("page", STORIES)
def test_a_story_prints_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    assert any(map(said, examples(page)))
    for example in examples(page):
        run(page, example, names)
        assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == said(example)
