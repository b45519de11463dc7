"""Links from pages to files of the repository that lie outside of docs/: they become part of the site.

Markdown becomes a page, everything else is copied, so that the site needs no address of a repository.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
_CODE_OR_LINK = re.compile(r"^ *```.*?^ *```$|(?<=\]\()(?!\w+:|#)([^)#\s]+)", re.MULTILINE | re.DOTALL)
_origins: dict[str, str] = {}  # where a page of the site comes from, by its place in the site: paths in the repository


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to, and what these pages link to in turn."""
    root, docs = _folders(config)
    _origins.clear()
    waiting = [(file.src_uri, posixpath.join(docs, file.src_uri)) for file in files.documentation_pages()]
    for name, uri in ROOT_PAGES.items():
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, content=(root / name).read_text(encoding="utf-8")))
            waiting.append((uri, name))
    while waiting:
        uri, origin = waiting.pop()
        _origins[uri] = origin
        file = files.get_file_from_path(uri)
        for target in _targets(file.content_string if file else "", origin, root):
            there = site_place(target, docs)
            if target.startswith(f"{docs}/") or files.get_file_from_path(there) is not None:
                continue
            new = File.generated(config, there, abs_src_path=str(root / target), inclusion=InclusionLevel.NOT_IN_NAV)
            files.append(new)
            if target.endswith(".md"):
                waiting.append((there, target))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links point to the places in the site."""
    root, docs = _folders(config)
    uri = page.file.src_uri
    origin = _origins.get(uri, posixpath.join(docs, uri))

    def moved(link: str) -> str:
        target = _target(link, origin)
        if (origin.startswith(f"{docs}/") and target.startswith(f"{docs}/")) or not (root / target).is_file():
            return link
        return posixpath.relpath(site_place(target, docs), posixpath.dirname(uri) or ".")

    return _with_links(markdown, moved)


def site_place(target: str, docs: str = "docs") -> str:
    """Where a file of the repository stands in the site."""
    if target.startswith(f"{docs}/"):
        return target.removeprefix(f"{docs}/")
    return ROOT_PAGES.get(target, f"files/{target}")


def _targets(markdown: str, origin: str, root: Path) -> list[str]:
    found: list[str] = []

    def seen(link: str) -> str:
        found.append(_target(link, origin))
        return link

    _with_links(markdown, seen)
    return [target for target in found if (root / target).is_file()]


def _target(link: str, origin: str) -> str:
    """The file that a link means, as a path in the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), link))


def _with_links(markdown: str, change: Callable[[str], str]) -> str:
    """The text with every relative link changed, code left alone."""
    return _CODE_OR_LINK.sub(lambda found: change(found[1]) if found[1] else found[0], markdown)


def _folders(config: MkDocsConfig) -> tuple[Path, str]:
    root = Path(config.config_file_path).parent
    return root, os.path.relpath(config.docs_dir, root).replace(os.sep, "/")
