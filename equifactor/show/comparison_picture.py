"""The picture of `Comparison.plot`: where solvers agree with the reference, and where they do not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import SolveError
from equifactor.show.canvas import FAINT, axes_or_new, legend, plain, tidy
from equifactor.show.palette import styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from equifactor.questions.comparison import Comparison

_MOST_POINTS = 20_000  # points of one solver; the points of larger models are thinned out evenly. Chosen by hand.


def draw_comparison(comparison: Comparison, ax: Axes | None) -> Axes:
    """Draw the picture of `Comparison.plot`."""
    return _marginals(comparison, ax) if comparison.task == "MAR" else _values(comparison, ax)


def _marginals(comparison: Comparison, ax: Axes | None) -> Axes:
    """Draw a point per state of each free variable: x is the reference, y the solver, equal values on the diagonal."""
    exact = getattr(comparison.reference, "marginals", None)
    others = {
        title: result.marginals
        for title, result in comparison.results.items()
        if hasattr(result, "marginals") and result is not comparison.reference
    }
    if exact is None or not others:
        raise SolveError(
            "The comparison has nothing to draw: it needs a reference with marginals and another answer with marginals."
        )
    free = np.repeat(np.isin(np.arange(comparison.graph.num_vars), comparison.graph.free_vars), np.diff(exact.ptr))
    entries = np.flatnonzero(free)
    entries = entries[:: max(1, len(entries) // _MOST_POINTS)]
    is_new = ax is None
    ax = axes_or_new(ax, 5.0, 4.6)
    ax.plot((0, 1), (0, 1), color=FAINT, linewidth=1, zorder=1)
    styles = styles_of(comparison.results)
    for title, found in others.items():
        ax.scatter(
            exact.values[entries], found.values[entries], s=18, alpha=0.75, color=styles[title].colour,
            marker=styles[title].marker, linewidths=0, label=plain(title), zorder=2,
        )  # fmt: skip
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal", ylabel="probability by the solver")
    ax.set_xlabel(f"probability by {plain(comparison.reference_title)}")
    legend(ax, is_new)
    return tidy(ax, comparison.heading())


def _values(comparison: Comparison, ax: Axes | None) -> Axes:
    """Draw a dot for each solver, at its ln Z or log score, on the line between its bounds."""
    name = "ln Z" if comparison.task == "PR" else "log score"
    rows = [(title, comparison.measures(title)) for title in comparison.results]
    shown = [(title, m) for title, m in rows if any(_finite(m.get(k)) for k in (name, "lower bound", "upper bound"))]
    if not shown:
        raise SolveError(f"The comparison has nothing to draw: no solver returned a finite {name} or bound.")
    ax = axes_or_new(ax, 6.4, 1.2 + 0.35 * len(shown))
    styles = styles_of(comparison.results)
    for y, (title, m) in enumerate(shown):
        colour = styles[title].colour
        value = m.get(name)
        ends = [e for e in (m.get("lower bound", value), m.get("upper bound")) if e is not None and math.isfinite(e)]
        if len(ends) == 2:
            ax.plot(ends, (y, y), color=colour, linewidth=2, alpha=0.5, marker="|", markersize=9)
        if value is not None and math.isfinite(value):
            ax.plot(value, y, marker=styles[title].marker, color=colour)
    ax.set_yticks(range(len(shown)), [plain(title) for title, _ in shown])
    ax.set(xlabel=name, ylim=(len(shown) - 0.5, -0.5))
    return tidy(ax, comparison.heading())


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
