"""The picture of a Bayesian network: layers of discs with their names below, squares of factors, arrows to children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.show.canvas import CURVES, FAINT, INK, LINE, axes_or_new, matplotlib, plain, tidy
from equifactor.show.graph_display import counted
from equifactor.show.layered_layout import ABOVE, BELOW, NAME, name_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from equifactor.base.typing import BoolArray, FloatArray
    from equifactor.graph import FactorGraph
    from equifactor.show.graph_layout import Places

_UNIT = 0.42  # inches of a unit of the layout, at which a letter of `_FONT` points is as wide as its room
_FONT = 9.0  # points of a letter of a name
_LARGEST = 16.0  # inches of a side of the figure, at most; larger networks have smaller letters. Chosen by hand.
_USUAL, _MOST_SCALE = 5.0, 1.5  # inches of a side that a small network grows to, and by which factor at most. By hand.
_NARROWEST = 3.4  # inches of the width of a figure, at least, for the title. Chosen by hand.
_BORDER = 0.3  # margin around the drawing, in units of the layout
_DISC = 0.28  # radius of a variable, in units of the layout
_PRIOR = np.array([-0.32, -0.25])  # offset from a variable without parents to the square of its factor


def draw_network(
    graph: FactorGraph, at: Places, routes: list[FloatArray], children: Sequence[int], ax: Axes | None
) -> Axes:
    """Draw a network whose variables, factors and lines have their places; see `LayeredPlaces`."""
    s = graph.structure
    names = [plain(s.variable_name(i), NAME) for i in range(s.num_vars)]
    half = np.maximum(np.array([name_width(name) for name in names]) / 2, _DISC)
    x, y = at.variables.T
    bends = np.concatenate([route[:, 0] for route in routes])
    low = np.array([min((x - half).min(), bends.min(initial=x[0])), y.min() - ABOVE]) - _BORDER
    high = np.array([max((x + half).max(), bends.max(initial=x[0])), y.max() + BELOW]) + _BORDER
    natural = _UNIT * float((high - low).max())
    scale = min(_LARGEST / natural, max(1.0, min(_MOST_SCALE, _USUAL / natural)))
    new = ax is None
    width, height = 0.2 + scale * _UNIT * (high - low)
    ax = tidy(axes_or_new(ax, max(width, _NARROWEST), height + 0.3), title_of(graph))
    if not new:  # Letters and discs have the size that the given axes leave them.
        box = ax.get_window_extent()
        inches = np.array([box.width, box.height]) / ax.figure.dpi
        scale = min(_MOST_SCALE, float((inches / (high - low)).min()) / _UNIT)
    ax.set(aspect="equal", xticks=[], yticks=[], xlim=(low[0], high[0]), ylim=(high[1], low[1]))  # Row 0 is at the top.
    ax.spines[:].set_visible(False)
    _lines(ax, graph, at, routes, children, scale)
    where = at.factors.copy()
    own = at.variables[s.scope_vars[s.scope_ptr[:-1][s.arity == 1]]]
    where[s.arity == 1] = own + _PRIOR
    ax.plot(*np.stack((own, own + _PRIOR)).transpose(2, 0, 1), color=LINE, linewidth=0.9 * scale, zorder=1)
    kind_squares(ax, graph, where, s.arity > 0, 20 * scale**2)
    seen = np.isin(np.arange(graph.num_vars), list(graph.evidence))
    size = (2 * _DISC * scale * _UNIT * 72) ** 2
    ax.scatter(x, y, s=size, c=np.where(seen, FAINT, "white"), edgecolors=INK, linewidths=scale, zorder=3)
    letters: dict[str, Any] = {"ha": "center", "fontsize": scale * _FONT, "color": INK, "zorder": 4}
    letters["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    for name, (across, down) in zip(names, at.variables.tolist(), strict=True):
        ax.text(across, down + _DISC + 0.08, name, va="top", **letters)
    return ax


def _lines(
    ax: Axes, graph: FactorGraph, at: Places, routes: list[FloatArray], children: Sequence[int], scale: float
) -> None:
    """Draw all lines as curves that cross rows vertically, and arrows into the children."""
    s = graph.structure
    path = matplotlib("path").Path
    curves = []
    for route in routes:
        if len(route):
            points, codes = [route[0], route[1]], [path.MOVETO, path.LINETO]
            for k in range(1, len(route) - 1, 2):
                middle = (route[k, 1] + route[k + 1, 1]) / 2
                points += [(route[k, 0], middle), (route[k + 1, 0], middle), route[k + 1], route[k + 2]]
                codes += [path.CURVE4] * 3 + [path.LINETO]
            curves.append(path(points, codes))
    lines = matplotlib("collections").PathCollection
    ax.add_collection(lines(curves, facecolors="none", edgecolors=LINE, linewidths=0.9 * scale, zorder=1))
    with_parents = np.asarray(children, np.int64)[s.arity > 1]
    tip = at.variables[with_parents] - (0.0, _DISC + 0.02)
    head = np.array([[0.0, 0.0], [-0.09, -0.2], [0.09, -0.2]])
    heads = matplotlib("collections").PolyCollection
    ax.add_collection(heads(tip[:, None] + head, facecolors=LINE, edgecolors="none", zorder=2))


def kind_squares(ax: Axes, graph: FactorGraph, at: FloatArray, drawn: BoolArray, size: float) -> None:
    """Draw the squares of factors, coloured by kind, with a legend if a drawn factor is not a dense table."""
    s = graph.structure
    kinds = np.zeros(s.num_factors, int) if s.kinds is None else s.kinds.kind
    for kind in np.unique(kinds[drawn]).tolist():
        mine = at[drawn & (kinds == kind)]
        colour = INK if kind == 0 else CURVES[(kind - 1) % len(CURVES)]
        ax.scatter(
            mine[:, 0], mine[:, 1], marker="s", s=size, color=colour, linewidths=0, zorder=2,
            label="table" if s.kinds is None else s.kinds.name(kind),
        )  # fmt: skip
    if np.any(kinds[drawn]):
        ax.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def title_of(graph: FactorGraph) -> str:
    """Return the name of a graph, or its size."""
    return graph.name or f"{counted(graph.num_vars, 'variable')}, {counted(graph.num_factors, 'factor')}"
