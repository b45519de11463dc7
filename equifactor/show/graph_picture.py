"""The picture of `FactorGraph.plot`: variables as discs, factors as squares coloured by their kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.show.canvas import CURVES, FAINT, INK, LINE, axes_or_new, matplotlib, plain, tidy
from equifactor.show.graph_display import counted
from equifactor.show.graph_layout import Places, places_in, places_of
from equifactor.show.grid_shapes import grid_of
from equifactor.show.network_picture import draw_network, kind_squares, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from equifactor.graph import FactorGraph

MOST_VARIABLES = 500  # variables of a graph that is drawn node by node, unless it is a grid. Chosen by hand.
MOST_IN_A_GRID = 10_000  # variables of a grid that is drawn node by node. Chosen by hand.
_WITH_NAMES = 60  # variables of a graph that shows their names. Chosen by hand.
_MOST_NODES = 3000  # variables and factors of three or more variables, which are nodes of the layout too. By hand.
_BORDER = 0.6  # margin around the drawing, in units of the layout, where neighbours are about 1 apart
_NAME_INSIDE = 4  # characters of a name that fits into a disc
_BESIDE = np.array([-0.28, 0.3])  # offset from a variable to the square of a factor over this variable alone


def draw_graph(graph: FactorGraph, ax: Axes | None, children_of: Callable[[FactorGraph], Sequence[int] | None]) -> Axes:
    """Draw the picture of `FactorGraph.plot`.

    Args:
        graph: the model.
        ax: axes to draw into; those of a new figure if None.
        children_of: returns, for a Bayesian network, the variable [F] whose conditional distribution each factor is.
    """
    grid = None if graph.num_vars > MOST_IN_A_GRID else grid_of(graph)
    nodes = graph.num_vars + int(np.count_nonzero(graph.structure.arity > 2))
    most = MOST_VARIABLES if grid is None else MOST_IN_A_GRID
    if graph.num_vars > most or nodes > max(most, _MOST_NODES):
        return _degrees(graph, ax)
    children = children_of(graph) if grid is None else None
    at = places_of(graph, children, compact=True) if grid is None else places_in(grid, graph.structure)
    if at.routes is not None:
        return draw_network(graph, at, at.routes, children or (), ax)
    corners = np.vstack((at.variables, at.factors[graph.structure.arity > 0])) if graph.num_vars else np.zeros((1, 2))
    low, high = corners.min(axis=0) - _BORDER, corners.max(axis=0) + _BORDER
    ax = tidy(axes_or_new(ax, *np.clip(0.4 + 0.75 * (high - low), 2.0, 9.0)), title_of(graph))
    small = graph.num_vars <= _WITH_NAMES
    _edges(ax, graph, at, children if small else None)
    _factors(ax, graph, at, small)
    _variables(ax, graph, at)
    if small:
        _names(ax, graph, at)
    ax.set(aspect="equal", xticks=[], yticks=[], xlim=(low[0], high[0]), ylim=(high[1], low[1]))  # Row 0 is at the top.
    ax.spines[:].set_visible(False)
    return ax


def _edges(ax: Axes, graph: FactorGraph, at: Places, children: Sequence[int] | None) -> None:
    """Draw a line from each factor of two or more variables to each of them, and an arrow to its child.

    Lines around the border of a torus are left out, because they would cross the whole picture.
    """
    s = graph.structure
    ends = np.stack((at.factors[s.factor_of_edge], at.variables[s.scope_vars]), axis=1)
    drawn = s.arity[s.factor_of_edge] > 1
    if at.kind == "grid":
        drawn &= np.abs(ends[:, 0] - ends[:, 1]).sum(axis=1) <= 0.5
    lines = matplotlib("collections").LineCollection
    ax.add_collection(lines(list(ends[drawn]), colors=LINE, linewidths=0.9, zorder=1))
    if children is None:
        return
    arrow = {"arrowstyle": "-|>", "color": LINE, "shrinkA": 0, "shrinkB": 10, "linewidth": 0.9}
    for e in np.flatnonzero(drawn & (s.scope_vars == np.array(children)[s.factor_of_edge])).tolist():
        ax.annotate("", xy=ends[e, 1], xytext=ends[e, 0], arrowprops=arrow, zorder=1)


def _factors(ax: Axes, graph: FactorGraph, at: Places, small: bool) -> None:
    """Draw a square for each factor, coloured by kind; the factor of a single variable hangs beside it."""
    s = graph.structure
    drawn = s.arity > 1
    if at.kind == "grid" and not small:  # A square on every line would hide a large grid.
        drawn &= False if s.kinds is None else s.kinds.kind > 0
    where = at.factors.copy()
    if small and at.kind != "grid":
        drawn |= s.arity == 1
        own = at.variables[s.scope_vars[s.scope_ptr[:-1][s.arity == 1]]]
        where[s.arity == 1] = own + _BESIDE
        ax.plot(*np.stack((own, own + _BESIDE)).transpose(2, 0, 1), color=LINE, linewidth=0.9, zorder=1)
    kind_squares(ax, graph, where, drawn, 34 if small else 8)


def _variables(ax: Axes, graph: FactorGraph, at: Places) -> None:
    """Draw the discs; observed variables are filled."""
    seen = np.zeros(graph.num_vars, bool)
    seen[list(graph.evidence)] = True
    colours = np.where(seen, FAINT, "white")
    x, y = at.variables.T
    size = 420 if graph.num_vars <= _WITH_NAMES else 60 if graph.num_vars <= MOST_VARIABLES else 6
    ax.scatter(x, y, s=size, c=colours, edgecolors=INK, linewidths=1.1 if size > 60 else 0.7, zorder=3, clip_on=False)


def _names(ax: Axes, graph: FactorGraph, at: Places) -> None:
    """Write names inside the discs if they fit, otherwise above."""
    outside: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9, "color": INK, "zorder": 4}
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.4}
    for i, place in enumerate(at.variables.tolist()):
        name = plain(graph.structure.variable_name(i))
        if len(name) <= _NAME_INSIDE:
            size = 9 if len(name) <= 3 else 7.5
            ax.text(place[0], place[1], name, ha="center", va="center", fontsize=size, color=INK, zorder=4)
        else:
            ax.annotate(name, place, (0, 12), va="bottom", ha="center", bbox=paper, **outside)


def _degrees(graph: FactorGraph, ax: Axes | None) -> Axes:
    """Draw a histogram of the number of factors per variable, for a graph that is too large to draw."""
    degree = np.bincount(graph.structure.scope_vars, minlength=graph.num_vars)
    ax = axes_or_new(ax, 6.4, 3.4)
    high = int(degree.max(initial=0))
    step = max(1, high // 60)
    ax.hist(degree, bins=(np.arange(0, high + step + 1, step) - 0.5).tolist(), color=CURVES[0])
    ax.set(xlabel="factors of a variable", ylabel="variables", yscale="log")
    count = f"{counted(graph.num_vars, 'variable')} and {counted(graph.num_factors, 'factor')}"
    return tidy(ax, f"{count}: too many to draw one by one")
