"""Files outside docs/ that pages link to. They become part of the site, so that the site needs no repository address.

Markdown files become pages; all other files are copied.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Callable
from pathlib import Path

DOCS = "docs"
ROOT_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
_CODE_OR_LINK = re.compile(r"^ *```.*?^ *```$|(?<=\]\()(?!\w+:|#)([^)#\s]+)", re.MULTILINE | re.DOTALL)


def add(pages: Path, root: Path) -> None:
    """Add the files that pages link to, and the files that these files link to; then adapt all links."""
    waiting = [(path, f"{DOCS}/{path.relative_to(pages).as_posix()}") for path in pages.rglob("*.md")]
    for name, uri in ROOT_PAGES.items():
        if not (pages / uri).exists():
            shutil.copyfile(root / name, pages / uri)
            waiting.append((pages / uri, name))
    while waiting:
        page, origin = waiting.pop()

        def moved(link: str, page: Path = page, origin: str = origin) -> str:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link))
            if (origin.startswith(f"{DOCS}/") and target.startswith(f"{DOCS}/")) or not (root / target).is_file():
                return link
            there = pages / site_place(target)
            if not target.startswith(f"{DOCS}/") and not there.exists():
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / target, there)
                if target.endswith(".md"):
                    waiting.append((there, target))
            return os.path.relpath(there, page.parent).replace(os.sep, "/")

        page.write_text(_with_links(page.read_text(encoding="utf-8"), moved), encoding="utf-8")


def site_place(target: str) -> str:
    """Return the place in the site of a file of the repository."""
    if target.startswith(f"{DOCS}/"):
        return target.removeprefix(f"{DOCS}/")
    return ROOT_PAGES.get(target, f"files/{target}")


def _with_links(markdown: str, change: Callable[[str], str]) -> str:
    """Return the text with every relative link changed. Blocks of code stay as they are."""
    return _CODE_OR_LINK.sub(lambda found: change(found[1]) if found[1] else found[0], markdown)
