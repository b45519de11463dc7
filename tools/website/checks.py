"""Checks of the built site: links and anchors lead somewhere, and nothing is fetched from another host.

Zensical checks links between pages. These checks also see the navigation, pictures and files, because they read the
HTML that a reader opens.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_HTML = (
    re.compile(r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=[\"']?(?:https?:)?//[^\"' >]+"),
    re.compile(r"<link\b(?![^>]*\brel=[\"']?(?:canonical|prev|next))[^>]*?\bhref=[\"']?(?:https?:)?//[^\"' >]+"),
    re.compile(r"class=[\"']?mermaid\b"),  # the theme would fetch its script
)
_CSS = (re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^\"') ]+"),)


def outside_requests(folder: Path) -> list[str]:
    """Return `file: request` for everything that the pages, styles and pictures of a folder fetch from other hosts."""
    return [
        f"{path.relative_to(folder)}: {request}"
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".html", ".css", ".svg")
        for pattern in (_CSS if path.suffix == ".css" else (*_HTML, *_CSS))
        for request in pattern.findall(path.read_text(encoding="utf-8"))
    ]


def dead_links(folder: Path) -> list[str]:
    """Return one sentence for every link of a page in `folder` to a file or an anchor that does not exist."""
    pages = {path: _Page(path) for path in sorted(folder.rglob("*.html")) if path.name != "404.html"}
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir() or not target.exists():
                found.append(f"{path.relative_to(folder)}: the link {link} leads to a file that does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{path.relative_to(folder)}: the link {link} leads to an anchor that does not exist")
    return found


class _Page(HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Store the link of the tag, and its names as an anchor."""
        values = dict(attrs)
        self.anchors |= {name for name in (values.get("id"), values.get("name")) if name}
        link = values.get("src") if tag in ("img", "script", "source") else values.get("href")
        if link is not None and link != "":
            self.links.add(link)
