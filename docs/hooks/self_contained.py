"""The built site asks nothing of other hosts: no script, style, font, picture or frame is outside of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

_HTML = (
    re.compile(r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=[\"']?(?:https?:)?//[^\"' >]+"),
    re.compile(r"<link\b(?![^>]*\brel=[\"']?(?:canonical|prev|next))[^>]*?\bhref=[\"']?(?:https?:)?//[^\"' >]+"),
    re.compile(r"class=[\"']?mermaid\b"),  # the theme would fetch its script
)
_CSS = (re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^\"') ]+"),)


def on_post_build(config: MkDocsConfig) -> None:
    """Stop the build with the list of what would be fetched."""
    found = outside_requests(Path(config.site_dir))
    if found:
        from mkdocs.exceptions import PluginError

        raise PluginError("pages would fetch from other hosts:\n" + "\n".join(found))


def outside_requests(folder: Path) -> list[str]:
    """`file: what it would fetch`, for all pages, styles and pictures of a folder."""
    return [
        f"{path.relative_to(folder)}: {request}"
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".html", ".css", ".svg")
        for pattern in (_CSS if path.suffix == ".css" else (*_HTML, *_CSS))
        for request in pattern.findall(path.read_text(encoding="utf-8"))
    ]
