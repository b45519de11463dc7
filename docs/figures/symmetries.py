"""Draw docs/figures/symmetries.svg: what each of the three symmetries does to a graph and to a table.

`python docs/figures/symmetries.py`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.figure import Figure

INK, PAPER = "#222222", "#ffffff"
VARIABLE, FACTOR = "#9ecae1", "#fdae6b"
TABLE = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
NODES = {"i": (0.0, 1.0), "j": (2.0, 1.0), "k": (1.0, -0.3)}
FACTORS = {"a": ("i", "j"), "b": ("j", "k"), "c": ("k", "i")}


def draw() -> Figure:
    """Draw three columns, one per symmetry, with the graph before (above) and after (below)."""
    figure = Figure(figsize=(9.0, 5.4), facecolor=PAPER)
    grid = figure.subplots(2, 3)
    _graph(grid[0, 0], {"i": "1", "j": "2", "k": "3"}, {"a": "A", "b": "B", "c": "C"})
    _graph(grid[1, 0], {"i": "3", "j": "1", "k": "2"}, {"a": "B", "b": "C", "c": "A"})
    _table(grid[0, 1], TABLE, ("$X_1$", "$X_2$"), ("0", "1"), ("0", "1", "2"))
    _table(grid[1, 1], TABLE.T, ("$X_2$", "$X_1$"), ("0", "1", "2"), ("0", "1"))
    _table(grid[0, 2], TABLE, ("$X_1$", "$X_2$"), ("dry", "wet"), ("low", "mid", "high"))
    order = [2, 0, 1]
    _table(grid[1, 2], TABLE[::-1][:, order], ("$X_1$", "$X_2$"), ("wet", "dry"), ("high", "low", "mid"))
    titles = (
        "1  Global\nnumbers of variables and factors",
        "2  Local variable\norder of the variables of a factor",
        "3  Variable assignment\norder of the states of a variable",
    )
    for column, title in enumerate(titles):
        centre = (column + 0.5) / 3
        figure.text(centre, 0.985, title, ha="center", va="top", fontsize=11, color=INK)
        figure.text(centre, 0.475, "↓", ha="center", va="center", fontsize=20, color=INK)
    figure.subplots_adjust(left=0.04, right=0.97, top=0.8, bottom=0.02, hspace=0.42, wspace=0.3)
    return figure


def _graph(axes: Any, variables: dict[str, str], factors: dict[str, str]) -> None:
    for name, ends in FACTORS.items():
        middle = np.mean([NODES[e] for e in ends], axis=0)
        axes.plot(*np.transpose([NODES[e] for e in ends]), color=INK, lw=1.2, zorder=1)
        axes.plot(*middle, "s", ms=22, color=FACTOR, mec=INK, zorder=2)
        axes.annotate(factors[name], middle, ha="center", va="center", color=INK, zorder=3)
    for name, place in NODES.items():
        axes.plot(*place, "o", ms=26, color=VARIABLE, mec=INK, zorder=2)
        axes.annotate(f"$X_{variables[name]}$", place, ha="center", va="center", color=INK, zorder=3)
    axes.set(xlim=(-0.5, 2.5), ylim=(-0.75, 1.45), aspect="equal")
    axes.axis("off")


def _table(axes: Any, values: np.ndarray, names: tuple[str, str], rows: tuple[str, ...], cols: tuple[str, ...]) -> None:
    axes.imshow(values, cmap="YlGn", vmin=0.0, vmax=9.0)
    for (x, y), value in np.ndenumerate(values):
        axes.annotate(f"{value:.0f}", (y, x), ha="center", va="center", color=INK)
    axes.set_xticks(range(len(cols)), cols)
    axes.set_yticks(range(len(rows)), rows)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(names[1], color=INK)
    axes.set_ylabel(names[0], color=INK, rotation=0, labelpad=12)
    axes.tick_params(length=0, colors=INK, labelsize=9)
    axes.set(xlim=(-0.5, 2.5), ylim=(2.5, -0.5))  # the same cell size in every table
    for side in axes.spines.values():
        side.set_visible(False)


if __name__ == "__main__":
    rcParams["svg.hashsalt"] = "equifactor"  # the same file every time
    target = Path(__file__).with_suffix(".svg")
    draw().savefig(target, metadata={"Date": None})
