"""The picture of `Result.plot`: marginals as bars; on a grid, marginals or the best assignment as an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, SolveError
from equifactor.show.canvas import CURVES, INK, axes_or_new, matplotlib, on_spins, plain, spin_colours, tidy
from equifactor.show.grid_shapes import Grid, grid_of
from equifactor.show.uncertain import most_uncertain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.reading.inputs import Variable
    from equifactor.questions.result import Result

_MOST_BARS = 40  # bars in one picture. Chosen by hand.
_LABEL = 24  # characters of a name beside a bar. Chosen by hand.
_MOST_NUMBERS = 144  # cells of an image that shows its numbers. Chosen by hand.
_MOST_AS_BARS = 12  # variables of a grid whose marginals are drawn as bars rather than as an image. Chosen by hand.


def draw_answer(result: Result, variables: Sequence[Variable] | None, ax: Axes | None) -> Axes:
    """Draw the picture of `Result.plot`."""
    graph = result.graph
    has_marginals = hasattr(result, "marginals")
    if not has_marginals and not hasattr(result, "assignment"):
        raise SolveError(
            f"This {result.task} result has neither marginals nor an assignment to draw. {result.unanswered}".strip()
        )
    title = f"{result.task} by {result.solver}: {result.status}"
    partial = has_marginals and len(result.marginals.values) < graph.structure.state_ptr[-1]
    grid = None if variables is not None or partial else grid_of(graph)
    if grid is not None and (not has_marginals or graph.num_vars > _MOST_AS_BARS):
        return _image(result, grid, ax, title)
    if not has_marginals:
        raise SolveError(
            "An assignment can be drawn only if the model is a grid. result.states lists the states by name."
        )
    if variables is None:
        chosen = most_uncertain(result)
        note = ", the most uncertain first"
    else:
        if isinstance(variables, str) or not hasattr(variables, "__iter__") or getattr(variables, "ndim", 1) == 0:
            variables = [variables]  # type: ignore[list-item]
        chosen = np.array([graph.variable(v) for v in variables], int)
        note = ""
    return _bars(result, chosen, note, ax, title)


def _bars(result: Result, chosen: IntArray, note: str, ax: Axes | None, title: str) -> Axes:
    """Draw one bar per state of each variable; a binary variable has a single bar, for its second state."""
    s, marginals, spread = result.graph.structure, result.marginals, result.standard_errors
    labels: list[str] = []
    rows: list[tuple[float, float, tuple[float, float], str]] = []  # place, probability, errors on both sides, colour
    place, shown = 0.0, 0
    for i in chosen.tolist():
        d = int(s.card[i])
        states = range(d) if d != 2 else range(1, 2)
        if rows and len(rows) + len(states) > _MOST_BARS:
            break
        for x in states[:_MOST_BARS]:
            p, error = float(marginals[i][x]), 0.0 if spread is None else float(spread[i][x])
            rows.append((place, p, (min(error, p), min(error, 1 - p)), CURVES[(0 if d == 2 else x) % len(CURVES)]))
            labels.append(f"{plain(s.variable_name(i), _LABEL)} = {plain(s.states_of(i)[x], _LABEL)}")
            place += 1.0
        place += 0.5 if len(states) > 1 else 0.15
        shown += 1
    if not rows:
        raise ModelError("No variable can be drawn: `variables` is empty or all variables are observed.")
    at, probabilities, errors, colours = zip(*rows, strict=True)
    ax = axes_or_new(ax, 6.4, 1.1 + 0.24 * place)
    ax.barh(
        at,
        probabilities,
        color=colours,
        height=0.8,
        xerr=np.transpose(errors) if spread is not None else None,
        error_kw={"ecolor": INK},
    )
    ax.set_yticks(at, labels, fontsize=9)
    few = f" ({shown} of {len(chosen):,} variables{note})" if shown < len(chosen) else ""
    ax.set(xlim=(0, 1), xlabel=f"probability{few}", ylim=(place, -1.0))
    return tidy(ax, title)


def _image(result: Result, grid: Grid, ax: Axes | None, title: str) -> Axes:
    """Draw one cell per variable: P(X = 1) if all variables are binary, otherwise the most probable state."""
    binary = bool(np.all(result.graph.card == 2))
    has_marginals = hasattr(result, "marginals")
    if binary and has_marginals:
        values: FloatArray = result.marginals.values.reshape(-1, 2)[:, 1]
        label, settings = "P(X = 1)", {"cmap": spin_colours(), "vmax": 1}
    else:
        states = [int(np.argmax(m)) for m in result.marginals] if has_marginals else result.assignment
        values, label = np.asarray(states), "most probable state" if has_marginals else "state"
        most = max(2, int(result.graph.card.max()))
        cmap = matplotlib("colors").ListedColormap(CURVES[:most]) if most <= len(CURVES) else "viridis"
        settings = {"cmap": cmap, "vmax": most - 1}
    side = float(np.clip(9.0 / max(grid.rows, grid.columns), 0.05, 0.55))
    ax = axes_or_new(ax, max(3.0, grid.columns * side + 1.3), max(2.2, grid.rows * side + 0.6))
    cells = np.empty((grid.rows, grid.columns), values.dtype)
    cells[grid.cells[:, 1], grid.cells[:, 0]] = values
    image = ax.imshow(cells, vmin=0, **settings)
    if cells.size <= _MOST_NUMBERS:
        _numbers(ax, cells, settings["vmax"])
    bar = ax.figure.colorbar(image, ax=ax, label=label, shrink=0.85)
    if values.dtype.kind != "f":
        bar.set_ticks(range(0, settings["vmax"] + 1, 1 + settings["vmax"] // 10))
    ax.set(xticks=[], yticks=[])
    tidy(ax, title)
    ax.spines[:].set_visible(False)
    return ax


def _numbers(ax: Axes, cells: FloatArray, most: Any) -> None:
    """Write the number of each cell, dark on the light colours of its map."""
    for (row, column), value in np.ndenumerate(cells):
        if cells.dtype.kind == "f":
            text, colour = f"{value:.2f}", on_spins(value)
        else:  # Of the maps of states, only the one for many states is light, at its upper end.
            text, colour = str(value), INK if most >= len(CURVES) and value > 0.6 * most else "white"
        ax.text(column, row, text, ha="center", va="center", fontsize=7.5, color=colour)
