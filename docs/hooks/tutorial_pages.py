"""The tutorials: the notebooks of docs/tutorials, executed, one page each."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parents[2]))
from tools.run_tutorials import NAMES, build


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put a line per notebook into the navigation."""
    for section in config.nav or []:
        if "Tutorials" in section:
            section["Tutorials"] += [{_title(path): f"tutorials/{path.stem}.md"} for path in notebooks(config)]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Run the notebooks, and add their pages and pictures; the notebooks themselves are copied as they are."""
    root, found = Path(config.config_file_path).parent, notebooks(config)
    folder = root / "build" / "tutorials"
    if found:
        build([path.stem for path in found], folder)
    for path in found:
        page = (folder / f"{path.stem}.md").read_text(encoding="utf-8")
        title, _, rest = page.partition("\n")
        page = f"{title}\n\n[Download this notebook]({path.name}){{ .md-button download }}\n{rest}"
        files.append(File.generated(config, f"tutorials/{path.stem}.md", content=page))
        for picture in sorted((folder / f"{path.stem}_files").glob("*")):
            uri = f"tutorials/{path.stem}_files/{picture.name}"
            files.append(File.generated(config, uri, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """List the notebooks on their first page."""
    if page.file.src_uri != "tutorials/index.md":
        return markdown
    lines = [f"- **[{_title(path)}]({path.stem}.md).** {_about(path)}" for path in notebooks(config)]
    return "\n".join([markdown, *lines, ""])


def notebooks(config: MkDocsConfig) -> list[Path]:
    """The notebooks there are, in the order in which they should be read."""
    found = {path.stem: path for path in Path(config.docs_dir, "tutorials").glob("*.ipynb")}
    return [found[name] for name in sorted(found, key=lambda n: (NAMES.index(n) if n in NAMES else len(NAMES), n))]


def _first_cell(path: Path) -> str:
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "".join(cells[0]["source"])


def _title(path: Path) -> str:
    return _first_cell(path).partition("\n")[0].lstrip("# ").strip()


def _about(path: Path) -> str:
    """The first paragraph below the title."""
    below = _first_cell(path).partition("\n")[2].strip()
    return " ".join(below.partition("\n\n")[0].split())
