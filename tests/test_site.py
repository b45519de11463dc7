"""The site: the navigation has every page, the reference has every public name, and pages fetch nothing."""

from __future__ import annotations

import pkgutil
import re
import runpy
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import equifactor as ef
from tools.run_tutorials import NAMES
from tools.website import citations, repository_files
from tools.website.checks import dead_links, outside_requests
from tools.website.tutorial_pages import title_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MADE = {"changelog.md", "contributing.md", *(f"tutorials/{name}.md" for name in NAMES)}  # by tools/website


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


def test_the_navigation_has_the_titles_of_the_tutorials() -> None:
    part = next(section["Tutorials"] for section in config()["nav"] if "Tutorials" in section)
    assert part == ["tutorials/index.md", *({title_of(name): f"tutorials/{name}.md"} for name in NAMES)]


def test_warnings_are_errors_and_no_font_is_fetched() -> None:
    settings = config()
    assert settings["strict"] is True
    assert settings["theme"]["font"] is False
    assert "--strict" in (ROOT / "tools" / "website" / "__main__.py").read_text(encoding="utf-8")


def test_a_site_opened_from_disk_can_search() -> None:
    """Browsers refuse workers and requests from disk: the index must be a script, and the worker a frame."""
    assert "offline" in config()["plugins"]
    (script,) = config()["extra"]["polyfills"]
    assert "iframe-worker" in script  # otherwise Zensical fetches it from another host
    assert (DOCS / script).is_file()


WHOLE = {"data", "decoding", "generators", "metrics", "plot", "testing"}  # modules that are one entry each


def public_names() -> list[str]:
    """Return the names that the reference must have, such as `solve`, `solvers.register` and `show.plot`."""
    parts = {name for name in ef.__all__ if isinstance(getattr(ef, name), types.ModuleType)}
    inside = [f"{part}.{name}" for part in parts - WHOLE for name in getattr(ef, part).__all__]
    whole = [getattr(ef, part).__name__.removeprefix("equifactor.") for part in parts & WHOLE]
    return sorted([*(set(ef.__all__) - parts - {"__version__"}), *inside, *whole])


def test_the_reference_has_every_public_name_once() -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md")}
    index = pages.pop("index.md")
    found = re.findall(r"^::: equifactor\.([\w.]+)$", "\n".join(pages.values()), re.MULTILINE)
    assert sorted(name for name in found if name.count(".") < 2) == public_names()
    assert sorted(re.findall(r"\[`[\w.]+`\]\[equifactor\.([\w.]+)\]", index)) == public_names()


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
    (tmp_path / "page.html").write_text(
        '<a href="https://example">a link is not a request</a><script src="a.js"></script>'
    )
    assert outside_requests(tmp_path) == []
    (tmp_path / "page.html").write_text(text)
    assert len(outside_requests(tmp_path)) == 1


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text('<h2 id="here">Here</h2>')
    (tmp_path / "page.html").write_text(
        '<a href="other.html#here">a</a> <a href="https://example/x">b</a> <a href="#">c</a>'
    )
    assert dead_links(tmp_path) == []
    (tmp_path / "page.html").write_text(
        '<a href="other.html#there">a</a> <a href="gone.html">b</a> <img src="gone.png">'
    )
    assert len(dead_links(tmp_path)) == 3


def test_pages_get_files_of_the_repository_and_links_to_references(tmp_path: Path) -> None:
    (tmp_path / "references.md").write_text("- **[Sun21]** A paper.\n")
    (tmp_path / "index.md").write_text("[the table](../experiments/ising/table.md), [Sun21], [Else99] and `[Sun21]`\n")
    repository_files.add(tmp_path, ROOT)
    citations.link(tmp_path)
    assert (tmp_path / "files" / "experiments" / "ising" / "table.md").is_file()
    assert (tmp_path / "changelog.md").is_file()
    assert (tmp_path / "index.md").read_text() == (
        "[the table](files/experiments/ising/table.md), [Sun21](references.md#sun21), [Else99] and `[Sun21]`\n"
    )
    assert '<a id="sun21"></a>' in (tmp_path / "references.md").read_text()


def test_the_pictures_are_drawn() -> None:
    pytest.importorskip("matplotlib")
    assert len(runpy.run_path(str(DOCS / "figures" / "factor_graph.py"))["draw"]().axes) == 1
    assert len(runpy.run_path(str(DOCS / "figures" / "loop_correction.py"))["draw"]().axes) == 2
