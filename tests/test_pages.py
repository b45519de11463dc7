"""The pages for users: links work, lines are short, and the table of folders is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md"))
)
WIDTH = 100


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def without_code(text: str) -> str:
    """Return the text without blocks of code, fenced or indented."""
    return re.sub(r"^ *```.*?^ *```$|^    [^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", without_code(read(page))):
        assert ((ROOT / page).parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_prose_wraps(page: str) -> None:
    lines = [line for line in without_code(read(page)).splitlines() if not line.startswith(("|", "<!--"))]
    assert not [line for line in lines if len(line) > WIDTH]


def test_the_map_names_every_folder_once() -> None:
    named = re.findall(r"^\| `([\w/]+)/` \|", read("CONTRIBUTING.md"), re.MULTILINE)
    assert len(named) == len(set(named))
    inside = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("equifactor/**/__init__.py")}
    small = {
        "equifactor/solvers",
        "equifactor/learning",
        "equifactor/graph/reading",
    }  # described by the rows around them
    small |= {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("equifactor/factors/*/__init__.py")}
    assert set(named) == (inside - small) | {"experiments", "benchmarks", "examples", "docs", "tests", "tools"}
