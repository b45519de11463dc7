"""Draw docs/figures/factor-graph.svg: the factor graph of three friends who vote.

`python docs/figures/factor_graph.py`
"""

from __future__ import annotations

from pathlib import Path

from matplotlib import rcParams
from matplotlib.figure import Figure

INK, VARIABLE, FACTOR = "#222222", "#9ecae1", "#fdae6b"
VARIABLES = {"Ann": 1.0, "Bob": 3.0, "Cem": 5.0}
FACTORS = {"leans to yes": (0.0, (1.0,)), "agree": (2.0, (1.0, 3.0)), "agree ": (4.0, (3.0, 5.0))}


def draw() -> Figure:
    """Draw circles, squares and lines in a row."""
    figure = Figure(figsize=(6.4, 1.6), layout="constrained")
    axes = figure.subplots()
    for text, (place, ends) in FACTORS.items():
        for end in ends:
            axes.plot([place, end], [0.0, 0.0], color=INK, lw=1.4, zorder=1)
        axes.plot(place, 0.0, "s", ms=24, color=FACTOR, mec=INK, zorder=2)
        axes.annotate(text.strip(), (place, -0.62), ha="center", va="top", fontsize=10, color=INK)
    for name, place in VARIABLES.items():
        axes.plot(place, 0.0, "o", ms=38, color=VARIABLE, mec=INK, zorder=2)
        axes.annotate(name, (place, 0.0), ha="center", va="center", fontsize=11, color=INK, zorder=3)
    axes.set(xlim=(-0.7, 5.6), ylim=(-1.2, 0.9))
    axes.axis("off")
    return figure


if __name__ == "__main__":
    rcParams["svg.hashsalt"] = "equifactor"  # the same file every time
    draw().savefig(Path(__file__).with_name("factor-graph.svg"), metadata={"Date": None})
