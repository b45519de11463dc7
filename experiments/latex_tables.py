"""Lines of a Markdown table, and the LaTeX table for a paper."""

from __future__ import annotations

import math
from typing import Any

from experiments.cells import Cell, Cells
from experiments.map_config import MapExperiment


def head(*titles: Any) -> list[str]:
    """The first two lines of a Markdown table."""
    return [line(*titles), "|---" * len(titles) + "|"]


def line(*values: Any) -> str:
    """One line of a Markdown table."""
    return "| " + " | ".join(str(v) for v in values) + " |"


def latex(experiment: MapExperiment, table: Cells) -> str:
    """The table of the test split, ready to be included."""
    names = experiment.collections
    best = {n: min((c[n].error for c in table.values() if n in c and not c[n].zero), default=math.nan) for n in names}
    body = []
    for name, cells in table.items():
        shown = [_latex_cell(cells[n], best[n]) if n in cells else "--" for n in names]
        body.append(f"{name} & {' & '.join(shown)} \\\\")
    top = [f"\\begin{{tabular}}{{l{'r' * len(names)}}}", "\\hline", f"method & {' & '.join(names)} \\\\", "\\hline"]
    return "\n".join([*top, *body, "\\hline", "\\end{tabular}"]) + "\n"


def _latex_cell(cell: Cell, best: float) -> str:
    if cell.zero or cell.missing or math.isnan(cell.error):
        return "$\\infty$"
    text = f"{cell.error:.4f}"
    return f"\\textbf{{{text}}}" if cell.error <= best else text
