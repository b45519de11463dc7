"""Execute the notebooks of docs/tutorials and write them as pages with their outputs.

    python tools/run_tutorials.py                     # all, into build/tutorials
    python tools/run_tutorials.py decoding -o FOLDER

The notebooks contain plain Python without outputs, so this interpreter is enough and Jupyter is not needed. A cell that
raises an error or a warning stops the program, which names the notebook and the number of the cell.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import re
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "docs" / "tutorials"
NAMES = ("first-model", "bayesian-network", "decoding", "train-your-own-solver", "crf-layer", "write-a-solver")
_DPI = 110  # The resolution of pictures, in dots per inch. Chosen by hand.


class CellError(Exception):
    """A cell raised an error; the text names the cell and the reason."""


def build(names: Sequence[str] = NAMES, folder: Path = ROOT / "build" / "tutorials") -> None:
    """Write `NAME.md` and its pictures `NAME_files/1.png`, .. for each notebook."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        start = time.process_time()
        page = Page(name, folder)
        page.run()
        (folder / f"{name}.md").write_text(page.text, encoding="utf-8")
        print(f"{name}: {time.process_time() - start:.1f} s, {page.num_pictures} pictures", file=sys.stderr)


def cells(name: str) -> list[tuple[str, str]]:
    """Return the kind (`markdown` or `code`) and the text of each cell of a notebook."""
    notebook = json.loads((SOURCES / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]


class Page:
    """A notebook that is executed into a page."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.text = ""
        self.num_pictures = 0
        self.names: dict[str, Any] = {"__name__": f"tutorial_{name.replace('-', '_')}"}

    def run(self) -> None:
        """Execute all cells in one namespace and put the page into `text`."""
        import matplotlib

        matplotlib.use("agg")
        sys.modules[self.names["__name__"]] = module = type(sys)(self.names["__name__"])
        module.__dict__.update(self.names)  # So the classes of a notebook have a module, like classes of `__main__`.
        self.names = module.__dict__
        for number, (kind, source) in enumerate(cells(self.name), 1):
            if kind == "markdown":
                self.text += re.sub(r"\]\(([\w-]+)\.ipynb\)", r"](\1.md)", source.strip()) + "\n\n"
                continue
            self.text += f"```python\n{source.strip()}\n```\n\n"
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    self._execute(source, f"{self.name}, cell {number}")
            except Exception as error:
                raise CellError(f"{self.name}, cell {number}: {type(error).__name__}: {error}\n\n{source}") from error
        self.text = self.text.rstrip() + "\n"

    def _execute(self, source: str, where: str) -> None:
        """Execute one cell, and add its output, its last value and the figures that it opened."""
        tree = ast.parse(source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed, value = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, where, "exec"), self.names)
            if last is not None and not source.rstrip().endswith(";"):
                value = eval(compile(ast.Expression(last.value), where, "eval"), self.names)
            elif last is not None:
                exec(compile(ast.Module([last], []), where, "exec"), self.names)
        self._add_text(printed.getvalue())
        self._show(value)

    def _show(self, value: Any) -> None:
        from matplotlib import pyplot
        from matplotlib.axes import Axes
        from matplotlib.figure import Figure

        opened = [pyplot.figure(number) for number in pyplot.get_fignums()]
        if isinstance(value, Figure) and value not in opened:
            opened.append(value)
        elif value is not None and not isinstance(value, (Axes, Figure)):
            if hasattr(value, "_repr_html_"):
                lines = [line.strip() for line in value._repr_html_().splitlines() if line.strip()]
                self.text += f'<div class="output">{"".join(lines)}</div>\n\n'
            else:
                self._add_text(repr(value))
        for figure in opened:
            self._add_picture(figure)
        pyplot.close("all")

    def _add_text(self, text: str) -> None:
        if text.strip():
            lines = "\n".join(line.rstrip() for line in text.rstrip().splitlines())
            self.text += f"```text\n{lines}\n```\n\n"

    def _add_picture(self, figure: Any) -> None:
        self.num_pictures += 1
        files = self.folder / f"{self.name}_files"
        files.mkdir(exist_ok=True)
        figure.savefig(files / f"{self.num_pictures}.png", dpi=_DPI)
        titles = [ax.get_title(loc=loc) for ax in figure.axes for loc in ("left", "center")]
        about = next((t for t in titles if t), "figure").replace("[", "(").replace("]", ")")
        self.text += f"![{about}]({self.name}_files/{self.num_pictures}.png)\n\n"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}; all by default")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "tutorials", metavar="FOLDER")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"There is no tutorial {unknown[0]}. Choose from: {', '.join(NAMES)}.")
    try:
        build(options.names or NAMES, options.output)
    except CellError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
