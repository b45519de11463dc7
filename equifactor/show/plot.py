"""Pictures of several answers side by side. They need matplotlib: `pip install "equifactor[plot]"`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.options import choices
from equifactor.show.canvas import INK, axes_or_new, legend, matplotlib, on_spins, plain, spin_colours
from equifactor.show.palette import styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph
    from equifactor.graph.marginals import Marginals

_AGREE, _DIFFER = "#171f2e", "#cc7d5c"  # colours of neighbours that prefer equal states, and of those that do not
_SURE = 1.96  # standard deviations on either side of the mean that hold 95 % of a normal distribution
_WRONG = 0.1  # absolute error of a marginal above which the variable gets a ring


@checks_types("graph", "rows", "cols", "answers", "reference")
def plot_grid(
    graph: FactorGraph,
    rows: int,
    cols: int,
    answers: Mapping[str, Marginals],
    *,
    reference: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the marginals of a grid of binary variables, one panel per answer.

    A disc is a variable: its colour and the number inside are P(X = 1). A line is a factor of two variables: its width
    grows with the strength of the coupling, and its colour tells whether equal or different states are preferred. A
    ring marks a variable whose marginal differs from the reference by more than 0.1.

    Args:
        graph: a graph of binary variables; variable `r * cols + c` is in row r and column c.
        rows: number of rows.
        cols: number of columns.
        answers: marginals by title, one panel each.
        reference: title of the exact answer; the first one by default.
        ax: axes to draw into; those of a new figure by default.

    Returns:
        The axes: `plot_grid(..).figure.savefig("grid.png")` writes the picture.
    """
    if graph.num_vars != rows * cols or np.any(graph.card != 2):
        raise ModelError(f"plot_grid expects a grid of {rows}x{cols} binary variables, found {graph!r}.")
    if not answers:
        raise ModelError("plot_grid has no marginals to draw: `answers` is empty.")
    step, count = cols + 1, len(answers)
    ax = axes_or_new(ax, count * (0.62 * cols + 0.5) + 0.9, 0.62 * rows + 1.35)
    truth = reference or next(iter(answers))
    if truth not in answers:
        raise OptionError(f"plot_grid has no answer {truth!r} as its reference; {choices(truth, list(answers))}.")
    exact = _ones(answers[truth])
    y, x = np.divmod(np.arange(rows * cols), cols)
    for panel, (title, marginals) in enumerate(answers.items()):
        p = _ones(marginals)
        _panel(ax, graph, np.stack((x + panel * step, y), axis=1), p, exact)
        middle = panel * step + (cols - 1) / 2
        worst = np.abs(p - exact).max()
        note = "reference" if title == truth else f"largest error {worst:.2f}"
        ax.text(middle, -0.7, plain(title), ha="center", va="bottom", fontsize=11, color=INK, fontweight="bold")
        ax.text(middle, rows - 0.3, note, ha="center", va="top", fontsize=9, color=INK)
    right = count * step - 1.45
    ax.set(xlim=(-0.55, right), ylim=(rows + 0.1, -1.2), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    _legend(ax)
    return ax


@checks_types("x", "y", "log_x")
def plot_error_rates(
    curves: Mapping[str, Sequence[tuple[float, int, int]]],
    *,
    x: str = "physical error rate",
    y: str = "logical error rate",
    log_x: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw error rates with their 95 % confidence intervals on a logarithmic axis, one curve per title.

    The intervals are Wilson's, which are not symmetric and never reach 0. A point without any errors is an open
    triangle at the rate that is excluded with 95 % confidence. A title that is the text of a solver has the colour and
    the marker of this solver in all pictures.

    Args:
        curves: by title, points (where, shots, errors); `where` is a noise rate or a signal-to-noise ratio.
        x: label of the horizontal axis, on which `where` is.
        y: label of the vertical axis, on which the rate is.
        log_x: whether the horizontal axis is logarithmic too.
        ax: axes to draw into; those of a new figure by default.

    Returns:
        The axes: `plot_error_rates(curves).figure.savefig("rates.png")` writes the picture.
    """
    try:
        drawn = {str(title): [(float(at), int(n), int(k)) for at, n, k in points] for title, points in curves.items()}
    except (TypeError, ValueError, AttributeError):
        raise ModelError(
            f"curves must be a mapping from titles to points (where, shots, errors), found {brief(curves)}."
        ) from None
    if not any(drawn.values()):
        raise ModelError("plot_error_rates has no error rates to draw: `curves` holds no points.")
    is_new = ax is None
    ax = axes_or_new(ax, 5.6, 4.2)
    styles = styles_of(drawn)
    for title, points in drawn.items():
        if not points:
            continue
        colour, marker, dashes = styles[title]
        at, shots, errors = (np.array(column, float) for column in zip(*sorted(points), strict=True))
        rate, seen = errors / shots, errors > 0
        low, high = confidence_limits(errors[seen], shots[seen])
        ax.errorbar(
            at[seen], rate[seen], np.maximum((rate[seen] - low, high - rate[seen]), 0.0), color=colour, marker=marker,
            markersize=5, linestyle=dashes, linewidth=1.4, capsize=2, label=plain(title),
        )  # fmt: skip
        # With 0 errors in n shots, a rate of 3 / n is excluded with 95 % confidence: (1 - 3 / n)^n < 0.05.
        ax.plot(at[~seen], 3.0 / shots[~seen], color=colour, marker="v", markerfacecolor="white", linestyle="none")
    ax.set(xlabel=x, ylabel=y, yscale="log", xscale="log" if log_x else "linear")
    if not log_x:
        ax.locator_params(axis="x", nbins=5)  # Labels such as 0.0175 beside each other overlap otherwise.
    ax.grid(True, which="both", color="#e2e8f0", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    legend(ax, is_new)
    return ax


def confidence_limits(errors: FloatArray, shots: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the limits of Wilson's 95 % confidence intervals of the rates `errors / shots`."""
    rate, z2 = errors / shots, _SURE**2 / shots
    middle = (rate + z2 / 2) / (1 + z2)
    half = np.sqrt(rate * (1 - rate) * z2 + z2**2 / 4) / (1 + z2)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def coupling(log_table: FloatArray) -> float:
    """Return the coupling `J = (t00 + t11 - t01 - t10) / 4` of a 2x2 log table; J > 0 prefers equal states."""
    t = np.maximum(log_table, -50.0)  # a true zero is a strong coupling, not an infinite line
    return float(t[0, 0] + t[1, 1] - t[0, 1] - t[1, 0]) / 4.0


def _ones(marginals: Marginals) -> FloatArray:
    """Return the probability [V] that each variable is in state 1."""
    values = getattr(marginals, "values", None)
    if not isinstance(values, np.ndarray) or values.size % 2:
        raise ModelError(f"plot_grid expects marginals of binary variables, found {brief(marginals)}.")
    return values.reshape(-1, 2)[:, 1]


def _panel(ax: Axes, graph: FactorGraph, at: FloatArray, p: FloatArray, exact: FloatArray) -> None:
    """Draw the variables at places [V, 2] with their probabilities `p` [V], and the couplings between them."""
    for a in np.flatnonzero(graph.structure.arity == 2).tolist():
        ends = at[graph.structure.scope(a)]
        if np.abs(ends[0] - ends[1]).sum() > 1:
            continue  # an edge around the border of a torus would cross the whole picture
        strength = coupling(graph.log_table(a))
        colour = _AGREE if strength > 0 else _DIFFER
        width = 0.5 + 2.2 * min(abs(strength), 2.5)
        ax.plot(*ends.T, color=colour, linewidth=width, solid_capstyle="butt", zorder=1)
    x, y = at.T
    wrong = np.abs(p - exact) > _WRONG
    ax.scatter(x[wrong], y[wrong], s=640, facecolors="white", edgecolors=INK, linewidths=1.6, zorder=2)
    ax.scatter(x, y, c=p, cmap=spin_colours(), vmin=0, vmax=1, s=430, edgecolors="white", linewidths=1.2, zorder=3)
    for place, q in zip(at, p.tolist(), strict=True):
        text = "0" if q < 0.005 else "1" if q >= 0.995 else f"{q:.2f}".lstrip("0")
        ax.text(place[0], place[1], text, ha="center", va="center_baseline", fontsize=8, color=on_spins(q), zorder=4)


def _legend(ax: Axes) -> None:
    """Add the bar of colours at the right, and what rings and lines are below."""
    line = matplotlib("lines").Line2D
    bar = ax.figure.colorbar(
        matplotlib("cm").ScalarMappable(cmap=spin_colours()), ax=ax, shrink=0.75, aspect=22, pad=0.02
    )
    bar.set_label("P(X = 1)", fontsize=9, color=INK)
    bar.set_ticks([0, 0.5, 1], labels=["0", "½", "1"], fontsize=9)
    bar.outline.set_visible(False)
    ring = line([], [], marker="o", linestyle="none", markersize=9, markerfacecolor="none", markeredgecolor=INK)
    names = ["equal states preferred", "different states preferred", f"off by more than {_WRONG:g}"]
    ax.legend(
        [*(line([], [], color=c, linewidth=3) for c in (_AGREE, _DIFFER)), ring], names, loc="upper center",
        bbox_to_anchor=(0.5, 0.0), ncols=3, frameon=False, fontsize=9, labelcolor=INK,
    )  # fmt: skip
