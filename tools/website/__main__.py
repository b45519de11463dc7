"""Build the site into site/ and check it: `python -m tools.website`, which `make docs` calls.

1. The pages are collected under build/pages: the pages of docs/, the executed tutorials, the help texts of all
   commands, and the files outside docs/ that pages link to.
2. Zensical turns build/pages into site/, by the settings in mkdocs.yml. A warning is an error.
3. The built pages are checked: every link and anchor leads somewhere, and nothing is fetched from another host.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools.website import citations, command_pages, repository_files, tutorial_pages
from tools.website.checks import dead_links, outside_requests

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "site"
_NOT_COPIED = ("*.json", "__pycache__")  # The data of figures, and byte code.


def collect(pages: Path = PAGES, *, tutorials: bool = True) -> None:
    """Write the Markdown that the site is built from into `pages`. Without `tutorials`, no notebook is executed."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    if tutorials:
        tutorial_pages.add(pages)
    command_pages.add(pages)
    repository_files.add(pages, ROOT)
    citations.link(pages)


def main() -> None:
    """Build and check the site."""
    collect()
    shutil.rmtree(SITE, ignore_errors=True)
    zensical = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    if (status := subprocess.run(zensical, cwd=ROOT).returncode) != 0:
        sys.exit(status)
    problems = [] if (SITE / "search.js").is_file() else ["search.js is missing: a site opened from disk cannot search"]
    problems += [*dead_links(SITE), *(f"fetched from another host: {request}" for request in outside_requests(SITE))]
    if problems:
        sys.exit("\n".join(problems))
    print(f"Built {SITE / 'index.html'}", file=sys.stderr)


if __name__ == "__main__":
    main()
