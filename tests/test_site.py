"""The site: its navigation has every page, its reference every public name, and nothing in it comes from elsewhere."""

from __future__ import annotations

import pkgutil
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import equifactor as ef

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MADE = {"changelog.md", "contributing.md"}  # from CHANGELOG.md and CONTRIBUTING.md


def config() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def pages_of(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from pages_of(part)


def test_the_navigation_has_every_page_once() -> None:
    named = list(pages_of(config()["nav"]))
    assert len(named) == len(set(named))
    assert set(named) - MADE == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def test_warnings_are_errors_and_hooks_exist() -> None:
    settings = config()
    assert settings["strict"] is True
    assert settings["theme"]["font"] is False
    assert all((ROOT / hook).is_file() for hook in settings["hooks"])
    assert "mkdocs build --strict" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_reference_has_every_public_name_once() -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md")}
    index = pages.pop("index.md")
    public = sorted(set(ef.__all__) - {"__version__"})
    assert sorted(re.findall(r"^::: equifactor\.(\w+)$", "\n".join(pages.values()), re.MULTILINE)) == public
    assert sorted(re.findall(r"\[`\w+`\]\[equifactor\.(\w+)\]", index)) == public


def test_functions_that_share_a_name_with_their_file_are_in_the_reference() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))
    for name in ("data", "decoding", "generators"):
        module = getattr(ef, name)
        for file in {info.name for info in pkgutil.iter_modules(module.__path__)} & set(module.__all__):
            assert f"::: equifactor.{name}.{file}.{file}\n" in text, file


def test_every_picture_of_a_script_is_there() -> None:
    for script in (DOCS / "figures").glob("*.py"):
        for name in re.findall(r"docs/figures/([\w-]+\.svg)", script.read_text(encoding="utf-8")):
            assert (DOCS / "figures" / name).is_file(), name


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        "<img src=https://example/x.png>",
        "<style>@import 'https://example/x.css'</style>",
        '<pre class="mermaid">',
    ],
)
def test_a_request_to_another_host_is_found(text: str, tmp_path: Path) -> None:
    outside_requests = runpy.run_path(str(DOCS / "hooks" / "self_contained.py"))["outside_requests"]
    (tmp_path / "page.html").write_text(
        '<a href="https://example">a link is no request</a><script src="a.js"></script>'
    )
    assert outside_requests(tmp_path) == []
    (tmp_path / "page.html").write_text(text)
    assert len(outside_requests(tmp_path)) == 1


def test_the_pictures_are_drawn() -> None:
    pytest.importorskip("matplotlib")
    assert len(runpy.run_path(str(DOCS / "figures" / "factor_graph.py"))["draw"]().axes) == 1
    assert len(runpy.run_path(str(DOCS / "figures" / "loop_correction.py"))["draw"]().axes) == 2
