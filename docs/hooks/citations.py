"""Keys of literature such as [Sun21] link to their line on the page of references."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

PAGE = "references.md"
_ENTRY = re.compile(r"^- \*\*\[(\w+)\]\*\*", re.MULTILINE)
_CODE_OR_KEY = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`|(?<!\])\[([A-Z]\w*\d\d)\](?![\[(:])", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Anchors on the page of references, links to them on all others."""
    if page.file.src_uri == PAGE:
        return _ENTRY.sub(lambda key: f'- <a id="{key[1].lower()}"></a>**{key[1]}**', markdown)
    known = set(_ENTRY.findall(Path(config.docs_dir, PAGE).read_text(encoding="utf-8")))
    there = posixpath.relpath(PAGE, posixpath.dirname(page.file.src_uri) or ".")

    def linked(found: re.Match[str]) -> str:
        return f"[{found[1]}]({there}#{found[1].lower()})" if found[1] in known else found[0]

    return _CODE_OR_KEY.sub(linked, markdown)
