"""The pages of the tutorials: one page for each executed notebook of docs/tutorials."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.run_tutorials import NAMES, ROOT, build, cells

_EXECUTED = ROOT / "build" / "tutorials"


def add(pages: Path) -> None:
    """Execute the notebooks, add their pages and pictures, and list the tutorials on their first page."""
    build(NAMES, _EXECUTED)
    folder = pages / "tutorials"
    for name in NAMES:
        title, _, rest = (_EXECUTED / f"{name}.md").read_text(encoding="utf-8").partition("\n")
        page = f"{title}\n\n[Download this notebook]({name}.ipynb){{ .md-button download }}\n{rest}"
        (folder / f"{name}.md").write_text(page, encoding="utf-8")
        if (_EXECUTED / f"{name}_files").exists():
            shutil.copytree(_EXECUTED / f"{name}_files", folder / f"{name}_files")
    lines = [f"- **[{title_of(name)}]({name}.md).** {_about(name)}\n" for name in NAMES]
    index = folder / "index.md"
    index.write_text(index.read_text(encoding="utf-8") + "\n" + "".join(lines), encoding="utf-8")


def title_of(name: str) -> str:
    """Return the title of a notebook: the first line of its first cell."""
    return cells(name)[0][1].partition("\n")[0].lstrip("# ").strip()


def _about(name: str) -> str:
    """Return the first paragraph below the title of a notebook, as one line."""
    below = cells(name)[0][1].partition("\n")[2].strip()
    return " ".join(below.partition("\n\n")[0].split())
