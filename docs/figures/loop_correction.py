"""Draw docs/figures/loop-correction.svg: what belief propagation and FE-Net see of a square.

`python docs/figures/loop_correction.py`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import rcParams
from matplotlib.figure import Figure

INK, VARIABLE, FACTOR, TARGET, MESSAGE = "#222222", "#9ecae1", "#fdae6b", "#f4d35e", "#d62728"
CORNERS = {"i": (0.0, 2.0), "j": (2.0, 2.0), "k": (2.0, 0.0), "l": (0.0, 0.0)}
SIDES = {"a": ("i", "j"), "": ("j", "k"), " ": ("k", "l"), "b": ("l", "i")}


def draw() -> Figure:
    """Draw two messages treated as independent (left), and the whole square with its outside messages (right)."""
    figure = Figure(figsize=(9.0, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    _square(left, bold=("a", "b"))
    for start in ((1.0, 2.0), (0.0, 1.0)):
        _arrow(left, start, CORNERS["i"])
    left.set_title("belief propagation: two messages reach i,\ntaken for independent", fontsize=11)
    _square(right, bold=tuple(SIDES))
    for name in "jkl":
        x, y = CORNERS[name]
        _arrow(right, (x + (1.0 if x else -1.0), y + (0.8 if y else -0.8)), (x, y))
    right.set_title("FE-Net: the square is solved exactly,\nwith what comes from outside", fontsize=11)
    return figure


def _square(axes: Any, bold: tuple[str, ...]) -> None:
    for name, (one, two) in SIDES.items():
        (x0, y0), (x1, y1) = CORNERS[one], CORNERS[two]
        seen = name in bold
        axes.plot([x0, x1], [y0, y1], color=INK if seen else "#bbbbbb", lw=1.6 if seen else 1.0, zorder=1)
        middle = ((x0 + x1) / 2, (y0 + y1) / 2)
        axes.plot(*middle, "s", ms=20, color=FACTOR if seen else "#eeeeee", mec=INK if seen else "#bbbbbb", zorder=2)
        axes.annotate(name.strip(), middle, ha="center", va="center", color=INK, zorder=3)
    for name, place in CORNERS.items():
        axes.plot(*place, "o", ms=28, color=TARGET if name == "i" else VARIABLE, mec=INK, zorder=2)
        axes.annotate(name, place, ha="center", va="center", color=INK, zorder=3)
    axes.set(xlim=(-1.3, 3.3), ylim=(-1.0, 3.0), aspect="equal")
    axes.axis("off")


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    way = {"arrowstyle": "-|>", "color": MESSAGE, "lw": 2.2, "shrinkA": 12, "shrinkB": 17}
    axes.annotate("", end, start, arrowprops=way, zorder=4)


if __name__ == "__main__":
    rcParams["svg.hashsalt"] = "equifactor"  # the same file every time
    draw().savefig(Path(__file__).with_name("loop-correction.svg"), metadata={"Date": None})
