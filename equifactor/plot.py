"""Pictures of models and answers. They need matplotlib, which nothing else does: `pip install "equifactor[plot]"`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.drawing.canvas import CURVES, INK, SPINS, free_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph
    from equifactor.graph.marginals import Marginals

_AGREE, _DIFFER = "#3d4852", "#d69e2e"  # colours of neighbours that prefer equal states, and of those that do not


def plot_grid(
    graph: FactorGraph,
    rows: int,
    cols: int,
    answers: Mapping[str, Marginals],
    *,
    reference: str | None = None,
) -> Figure:
    """Draw the marginals of a grid of binary variables, one panel per answer.

    A disc is a variable: its colour and the number inside are P(X = 1). A line is a pair factor: its width grows
    with the strength of the coupling, its colour says whether equal or different states are preferred. A ring
    marks a variable whose marginal is off by more than 0.1 against the reference.

    Args:
        graph: a graph of binary variables; variable `r * cols + c` sits in row r and column c.
        rows: number of rows.
        cols: number of columns.
        answers: marginals by title, one panel each.
        reference: title of the exact answer; the first one by default.

    Returns:
        A figure that belongs to no window: `figure.savefig("grid.png")`.
    """
    if graph.num_vars != rows * cols or np.any(graph.card != 2):
        raise ModelError(f"expected {rows}x{cols} binary variables, found {graph!r}")
    if not answers:
        raise ModelError("there are no marginals to draw")
    figure_class, colors = free_figure()
    truth = reference or next(iter(answers))
    exact = _ones(answers[truth])
    size = 0.62 * cols, 0.62 * rows
    figure = figure_class(figsize=(len(answers) * (size[0] + 0.5) + 0.9, size[1] + 1.35), dpi=160, layout="constrained")
    axes = figure.subplots(1, len(answers), squeeze=False)[0]
    cmap = colors.LinearSegmentedColormap.from_list("spins", SPINS)
    for ax, (title, marginals) in zip(axes, answers.items(), strict=True):
        _panel(ax, graph, rows, cols, _ones(marginals), exact, cmap)
        ax.set_title(title, fontsize=11, color=INK, pad=6, fontweight="bold")
        worst = np.abs(_ones(marginals) - exact).max()
        note = "reference" if title == truth else f"largest error {worst:.2f}"
        ax.set_xlabel(note, fontsize=9, color=INK)
    _legend(figure, axes, cmap)
    return figure


def plot_error_rates(
    curves: Mapping[str, Sequence[tuple[float, int, int]]],
    *,
    x: str = "physical error rate",
    y: str = "logical error rate",
    log_x: bool = False,
) -> Figure:
    """Draw error rates with their binomial standard errors, one curve for each title, on a logarithmic axis.

    A point at which no error was seen is drawn as an open triangle at the rate that is excluded with 95 %.

    Args:
        curves: by title, points (where, shots, errors); `where` is a noise rate or a signal-to-noise ratio.
        x: what `where` is.
        y: what the rate is.
        log_x: whether the horizontal axis is logarithmic too.

    Returns:
        A figure that belongs to no window: `figure.savefig("rates.png")`.
    """
    if not any(curves.values()):
        raise ModelError("there are no error rates to draw")
    figure = free_figure()[0](figsize=(5.6, 4.2), dpi=160, layout="constrained")
    ax = figure.subplots()
    for n, (title, points) in enumerate(curves.items()):
        colour = CURVES[n % len(CURVES)]
        at, shots, errors = (np.array(column, float) for column in zip(*sorted(points), strict=True))
        rate = errors / shots
        seen = errors > 0
        spread = np.sqrt(rate * (1.0 - rate) / shots)[seen]
        ax.errorbar(
            at[seen], rate[seen], np.minimum(spread, 0.99 * rate[seen]),
            color=colour, marker="o", markersize=4, linewidth=1.4, capsize=2, label=title,
        )  # fmt: skip
        ax.plot(at[~seen], 3.0 / shots[~seen], color=colour, marker="v", markerfacecolor="white", linestyle="none")
    ax.set(xlabel=x, ylabel=y, yscale="log", xscale="log" if log_x else "linear")
    ax.grid(True, which="both", color="#e2e8f0", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9, labelcolor=INK)
    return figure


def coupling(log_table: FloatArray) -> float:
    """The coupling J of a 2x2 log table, `(t00 + t11 - t01 - t10) / 4`: positive where equal states are preferred."""
    t = np.maximum(log_table, -50.0)  # a true zero is a strong coupling, not an infinite line
    return float(t[0, 0] + t[1, 1] - t[0, 1] - t[1, 0]) / 4.0


def _ones(marginals: Marginals) -> FloatArray:
    """The probability [V] that each variable is in state 1."""
    return marginals.values.reshape(-1, 2)[:, 1]


def _panel(
    ax: Axes,
    graph: FactorGraph,
    rows: int,
    cols: int,
    p: FloatArray,
    exact: FloatArray,
    cmap: Any,
) -> None:
    y, x = np.divmod(np.arange(rows * cols), cols)
    for a in np.flatnonzero(graph.structure.arity == 2).tolist():
        i, j = graph.structure.scope(a).tolist()
        if abs(x[i] - x[j]) + abs(y[i] - y[j]) > 1:
            continue  # an edge around the border of a torus would cross the whole picture
        strength = coupling(graph.log_table(a))
        color = _AGREE if strength > 0 else _DIFFER
        width = 0.5 + 2.2 * min(abs(strength), 2.5)
        ax.plot(x[[i, j]], y[[i, j]], color=color, linewidth=width, solid_capstyle="butt", zorder=1)
    wrong = np.abs(p - exact) > 0.1
    ax.scatter(x[wrong], y[wrong], s=640, facecolors="white", edgecolors=INK, linewidths=1.6, zorder=2)
    ax.scatter(x, y, c=p, cmap=cmap, vmin=0, vmax=1, s=430, edgecolors="white", linewidths=1.2, zorder=3)
    for i in range(rows * cols):
        light = abs(p[i] - 0.5) < 0.33
        text = f"{p[i]:.2f}".lstrip("0") if p[i] < 0.995 else "1"
        text = text if p[i] >= 0.005 else "0"
        ax.text(
            x[i],
            y[i],
            text,
            ha="center",
            va="center_baseline",
            fontsize=8,
            color=INK if light else "white",
            zorder=4,
        )
    ax.set(xlim=(-0.55, cols - 0.45), ylim=(rows - 0.45, -0.55), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def _legend(figure: Figure, axes: Any, cmap: Any) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.lines import Line2D

    bar = figure.colorbar(ScalarMappable(cmap=cmap), ax=axes, shrink=0.75, aspect=22, pad=0.02)
    bar.set_label("P(X = 1)", fontsize=9, color=INK)
    bar.set_ticks([0, 0.5, 1], labels=["0", "½", "1"], fontsize=9)
    bar.outline.set_visible(False)
    ring = Line2D([], [], marker="o", linestyle="none", markersize=9, markerfacecolor="none", markeredgecolor=INK)
    lines = [Line2D([], [], color=c, linewidth=3) for c in (_AGREE, _DIFFER)]
    names = ["equal states preferred", "different states preferred", "off by more than 0.1"]
    figure.legend([*lines, ring], names, loc="outside lower center", ncols=3, frameon=False, fontsize=9, labelcolor=INK)
