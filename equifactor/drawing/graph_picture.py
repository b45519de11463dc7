"""`FactorGraph.plot`: variables as discs, factors as squares coloured by their kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.drawing.canvas import CURVES, FAINT, INK, axes_or_new, plain, tidy
from equifactor.drawing.grid_shapes import grid_shape
from equifactor.graph import display
from equifactor.graph.kinds import kind_name
from equifactor.graph.parents import children_of
from equifactor.view.graph_layout import Places, places_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph

MOST_VARIABLES = 500  # that are drawn one by one
MOST_IN_A_GRID = 10_000
_WITH_NAMES = 60  # variables up to which names are written
_MOST_NODES = 3000  # variables and factors of three or more variables, which are nodes of the layout as well
_BORDER = 0.6  # around everything that is drawn, where neighbours are about 1 apart
_ROOM = 4  # characters that fit into a disc
_BESIDE = np.array([-0.28, 0.3])  # from a variable to the square of a factor of its own
_ABOVE = np.array([-0.28, -0.3])  # the same in a network, whose arrows go down
_LAYERS = np.array([1.7, 1.2])  # more room between the variables of a network, for names beside them
_LINE = "#718096"


def draw_graph(graph: FactorGraph, ax: Axes | None = None) -> Axes:
    """What `FactorGraph.plot` draws."""
    shape = None if graph.num_vars > MOST_IN_A_GRID else grid_shape(graph)
    nodes = graph.num_vars + int(np.count_nonzero(graph.structure.arity > 2))
    most = MOST_VARIABLES if shape is None else MOST_IN_A_GRID
    if graph.num_vars > most or nodes > max(most, _MOST_NODES):
        return _degrees(graph, ax)
    children = children_of(graph) if shape is None else None
    at = places_of(graph, children, compact=True) if shape is None else _in_a_grid(graph, shape)
    if children is not None:
        at = Places(at.kind, at.variables * _LAYERS, at.factors * _LAYERS)
    corners = np.vstack((at.variables, at.factors[graph.structure.arity > 0])) if graph.num_vars else np.zeros((1, 2))
    low, high = corners.min(axis=0) - _BORDER, corners.max(axis=0) + _BORDER
    ax = tidy(axes_or_new(ax, *np.clip(0.4 + 0.75 * (high - low), 2.0, 9.0)), _title(graph))
    small = graph.num_vars <= _WITH_NAMES
    _edges(ax, graph, at, children if small else None)
    _factors(ax, graph, at, small, _BESIDE if children is None else _ABOVE)
    _variables(ax, graph, at)
    if small:
        _names(ax, graph, at, beside=children is not None)
    ax.set(aspect="equal", xticks=[], yticks=[], xlim=(low[0], high[0]), ylim=(high[1], low[1]))  # row 0 is at the top
    ax.spines[:].set_visible(False)
    return ax


def _title(graph: FactorGraph) -> str:
    return (
        graph.name or f"{display.counted(graph.num_vars, 'variable')}, {display.counted(graph.num_factors, 'factor')}"
    )


def _in_a_grid(graph: FactorGraph, shape: tuple[int, int]) -> Places:
    """Variables row by row, factors in the middle of theirs; also where evidence or a torus hide the grid."""
    s = graph.structure
    row, column = np.divmod(np.arange(s.num_vars), shape[1])
    at = np.stack((column, row), axis=1).astype(float)
    sums = np.stack([np.bincount(s.factor_of_edge, at[s.scope_vars, k], s.num_factors) for k in (0, 1)], axis=1)
    return Places("grid", at, sums / np.maximum(s.arity, 1)[:, None], shape)


def _edges(ax: Axes, graph: FactorGraph, at: Places, children: list[int] | None) -> None:
    """A line from each factor of two or more variables to each of them, to its child with an arrow.

    There are none around the border of a torus, where they would cross the whole picture.
    """
    from matplotlib.collections import LineCollection

    s = graph.structure
    ends = np.stack((at.factors[s.factor_of_edge], at.variables[s.scope_vars]), axis=1)
    drawn = s.arity[s.factor_of_edge] > 1
    if at.kind == "grid":
        drawn &= np.abs(ends[:, 0] - ends[:, 1]).sum(axis=1) <= 0.5
    ax.add_collection(LineCollection(list(ends[drawn]), colors=_LINE, linewidths=0.9, zorder=1))
    if children is None:
        return
    arrow = {"arrowstyle": "-|>", "color": _LINE, "shrinkA": 0, "shrinkB": 10, "linewidth": 0.9}
    for e in np.flatnonzero(drawn & (s.scope_vars == np.array(children)[s.factor_of_edge])).tolist():
        ax.annotate("", xy=ends[e, 1], xytext=ends[e, 0], arrowprops=arrow, zorder=1)


def _factors(ax: Axes, graph: FactorGraph, at: Places, small: bool, apart: FloatArray) -> None:
    """Squares by kind, with a legend where there is more than tables; that of a single variable hangs beside it."""
    s = graph.structure
    kinds = np.zeros(s.num_factors, int) if s.kinds is None else s.kinds.kind
    drawn = s.arity > 1
    if at.kind == "grid":  # a square on every line would hide a large grid
        drawn &= (kinds > 0) | small
    where = at.factors.copy()
    if small and at.kind != "grid":
        drawn |= s.arity == 1
        own = at.variables[s.scope_vars[s.scope_ptr[:-1][s.arity == 1]]]
        where[s.arity == 1] = own + apart
        ax.plot(*np.stack((own, own + apart)).transpose(2, 0, 1), color=_LINE, linewidth=0.9, zorder=1)
    for kind in np.unique(kinds[drawn]).tolist():
        mine = where[drawn & (kinds == kind)]
        colour = INK if kind == 0 else CURVES[(kind - 1) % len(CURVES)]
        ax.scatter(
            mine[:, 0], mine[:, 1], marker="s", s=34 if small else 8, color=colour, linewidths=0, zorder=2,
            label=kind_name(kind),
        )  # fmt: skip
    if np.any(kinds[drawn]):
        ax.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _variables(ax: Axes, graph: FactorGraph, at: Places) -> None:
    """Discs, those that are observed filled."""
    seen = np.zeros(graph.num_vars, bool)
    seen[list(graph.evidence)] = True
    colours = np.where(seen, FAINT, "white")
    x, y = at.variables.T
    size = 420 if graph.num_vars <= _WITH_NAMES else 60 if graph.num_vars <= MOST_VARIABLES else 6
    ax.scatter(x, y, s=size, c=colours, edgecolors=INK, linewidths=1.1 if size > 60 else 0.7, zorder=3, clip_on=False)


def _names(ax: Axes, graph: FactorGraph, at: Places, beside: bool) -> None:
    """Names inside the discs where they fit, else above, or beside where arrows come from above."""
    outside: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9, "color": INK, "zorder": 4}
    outside |= {"xytext": (13, 0), "va": "center"} if beside else {"xytext": (0, 12), "va": "bottom", "ha": "center"}
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.4}
    for i, place in enumerate(at.variables.tolist()):
        name = plain(graph.structure.variable_name(i))
        if len(name) <= _ROOM:
            ax.text(
                place[0],
                place[1],
                name,
                ha="center",
                va="center",
                fontsize=9 if len(name) <= 3 else 7.5,
                color=INK,
                zorder=4,
            )
        else:
            ax.annotate(name, place, bbox=paper, **outside)


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
