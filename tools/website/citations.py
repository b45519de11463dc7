"""Links from keys of literature, such as [Sun21], to their entries on the page of references."""

from __future__ import annotations

import os
import re
from pathlib import Path

PAGE = "references.md"
_ENTRY = re.compile(r"^- \*\*\[(\w+)\]\*\*", re.MULTILINE)
_CODE_OR_KEY = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`|(?<!\])\[([A-Z]\w*\d\d)\](?![\[(:])", re.MULTILINE | re.DOTALL)


def link(pages: Path) -> None:
    """Put anchors on the page of references, and links to them on all other pages."""
    references = (pages / PAGE).read_text(encoding="utf-8")
    known = set(_ENTRY.findall(references))
    for page in pages.rglob("*.md"):
        there = os.path.relpath(pages / PAGE, page.parent).replace(os.sep, "/")

        def linked(found: re.Match[str], there: str = there) -> str:
            return f"[{found[1]}]({there}#{found[1].lower()})" if found[1] in known else found[0]

        text = page.read_text(encoding="utf-8")
        page.write_text(_CODE_OR_KEY.sub(linked, text), encoding="utf-8")
    anchored = _ENTRY.sub(lambda key: f'- <a id="{key[1].lower()}"></a>**{key[1]}**', references)
    (pages / PAGE).write_text(anchored, encoding="utf-8")
