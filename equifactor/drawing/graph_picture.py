"""`FactorGraph.plot`: variables as discs, factors as squares coloured by their kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.drawing.canvas import CURVES, FAINT, INK, axes_or_new, plain, tidy
from equifactor.drawing.graph_layout import GraphLayout, grid_shape, laid_out
from equifactor.factors.kinds import kind_name
from equifactor.graph import display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from equifactor.graph import FactorGraph

MOST_VARIABLES = 500  # that are drawn one by one
MOST_IN_A_GRID = 10_000
_WITH_NAMES = 60  # variables up to which names are written
_MOST_NODES = 3000  # variables and factors of three or more variables, which are nodes of the layout as well
_BORDER = 0.6  # around everything that is drawn, where neighbours are about 1 apart
_ROOM = 4  # characters that fit into a disc


def draw_graph(graph: FactorGraph, ax: Axes | None = None) -> Axes:
    """What `FactorGraph.plot` draws."""
    shape = grid_shape(graph)
    nodes = graph.num_vars + int(np.count_nonzero(graph.structure.arity > 2))
    if (shape is None and (graph.num_vars > MOST_VARIABLES or nodes > _MOST_NODES)) or graph.num_vars > MOST_IN_A_GRID:
        return _degrees(graph, ax)
    layout = laid_out(graph)
    places = np.vstack((layout.variables, layout.factors)) if graph.num_vars else np.zeros((1, 2))
    low, high = places.min(axis=0) - _BORDER, places.max(axis=0) + _BORDER
    ax = tidy(axes_or_new(ax, *np.clip(0.4 + 0.75 * (high - low), 2.0, 9.0)), _title(graph))
    small = graph.num_vars <= _WITH_NAMES
    _edges(ax, graph, layout)
    _factors(ax, graph, layout, small)
    _variables(ax, graph, layout, small)
    ax.set(aspect="equal", xticks=[], yticks=[], xlim=(low[0], high[0]), ylim=(high[1], low[1]))  # row 0 is at the top
    ax.spines[:].set_visible(False)
    return ax


def _title(graph: FactorGraph) -> str:
    return (
        graph.name or f"{display.counted(graph.num_vars, 'variable')}, {display.counted(graph.num_factors, 'factor')}"
    )


def _edges(ax: Axes, graph: FactorGraph, layout: GraphLayout) -> None:
    """A line from each factor of two or more variables to each of them; none around the border of a torus."""
    from matplotlib.collections import LineCollection

    s = graph.structure
    ends = np.stack((layout.factors[s.factor_of_edge], layout.variables[s.scope_vars]), axis=1)
    drawn = s.arity[s.factor_of_edge] > 1
    if layout.grid is not None:
        drawn &= np.abs(ends[:, 0] - ends[:, 1]).sum(axis=1) <= 0.5
    ax.add_collection(LineCollection(list(ends[drawn]), colors="#718096", linewidths=0.9, zorder=1))


def _factors(ax: Axes, graph: FactorGraph, layout: GraphLayout, small: bool) -> None:
    """Squares by kind, with a legend where there is more than tables; one of one variable hangs below its disc."""
    s = graph.structure
    kinds = np.zeros(s.num_factors, int) if s.kinds is None else s.kinds.kind
    drawn = s.arity > 1
    if layout.grid is not None:  # a square on every line would hide the grid
        drawn &= (kinds > 0) | small
    where = layout.factors.copy()
    if small and layout.grid is None:
        drawn |= s.arity == 1
        where[s.arity == 1] += (0.0, 0.42)
        below = where[s.arity == 1]
        ax.plot(
            np.stack((below[:, 0], below[:, 0])), np.stack((below[:, 1] - 0.42, below[:, 1])), color="#718096", lw=0.9,
            zorder=1,
        )  # fmt: skip
    for kind in np.unique(kinds[drawn]).tolist():
        mine = drawn & (kinds == kind)
        colour = INK if kind == 0 else CURVES[(kind - 1) % len(CURVES)]
        ax.scatter(
            where[mine, 0],
            where[mine, 1],
            marker="s",
            s=34 if small else 8,
            color=colour,
            linewidths=0,
            zorder=2,
            label=kind_name(kind),
        )
    if np.any(kinds[drawn]):
        ax.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _variables(ax: Axes, graph: FactorGraph, layout: GraphLayout, small: bool) -> None:
    """Discs, those that are observed filled; names inside where they fit, else beside."""
    seen = np.zeros(graph.num_vars, bool)
    seen[list(graph.evidence)] = True
    colours = np.where(seen, FAINT, "white")
    x, y = layout.variables.T
    if not small:
        size = 60 if graph.num_vars <= MOST_VARIABLES else 6
        ax.scatter(x, y, s=size, c=colours, edgecolors=INK, linewidths=0.7, zorder=3)
        return
    ax.scatter(x, y, s=420, c=colours, edgecolors=INK, linewidths=1.1, zorder=3, clip_on=False)
    for i, place in enumerate(layout.variables.tolist()):
        name = plain(graph.structure.variable_name(i))
        fits = len(name) <= _ROOM
        ax.annotate(
            name, place, xytext=(0, 0 if fits else 13), textcoords="offset points", ha="center",
            va="center" if fits else "bottom", fontsize=9 if len(name) <= 3 or not fits else 7.5, color=INK, zorder=4,
        )  # fmt: skip


def _degrees(graph: FactorGraph, ax: Axes | None) -> Axes:
    """How many variables have how many factors: what can be shown of a graph that is too large to draw."""
    degree = np.bincount(graph.structure.scope_vars, minlength=graph.num_vars)
    ax = axes_or_new(ax, 6.4, 3.4)
    high = int(degree.max(initial=0))
    step = max(1, high // 60)
    ax.hist(degree, bins=(np.arange(0, high + step + 1, step) - 0.5).tolist(), color=CURVES[0])
    ax.set(xlabel="factors of a variable", ylabel="variables", yscale="log")
    count = f"{display.counted(graph.num_vars, 'variable')} and {display.counted(graph.num_factors, 'factor')}"
    return tidy(ax, f"{count}: too many to draw one by one")
