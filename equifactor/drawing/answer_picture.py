"""`Result.plot`: marginals as bars, those of a grid as an image; the best assignment of a grid as an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, SolveError
from equifactor.drawing.canvas import CURVES, INK, SPINS, axes_or_new, free_figure, plain, tidy
from equifactor.drawing.grid_shapes import grid_shape
from equifactor.drawing.uncertain import most_uncertain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.reading.inputs import Variable
    from equifactor.questions.result import Result

_MOST_BARS = 40
_LABEL = 24  # characters of a name beside a bar
_WITH_NUMBERS = 144  # cells of an image up to which their numbers are written


def draw_answer(result: Result, variables: Sequence[Variable] | None, ax: Axes | None) -> Axes:
    """What `Result.plot` draws."""
    graph = result.graph
    if result.marginals is None and result.assignment is None:
        raise SolveError(f"this {result.task} result has neither marginals nor an assignment to draw ({result.status})")
    title = f"{result.task} by {result.solver}: {result.status}"
    shape = None if variables is not None else grid_shape(graph)
    if shape is not None and (result.marginals is None or graph.num_vars > 12):
        return _image(result, shape, ax, title)
    if result.marginals is None:
        raise SolveError("an assignment is drawn where the model is a grid; result.states has it by name")
    if variables is None:
        chosen = most_uncertain(result)
        note = ", the most uncertain first"
    else:
        if isinstance(variables, (str, int)):
            variables = [variables]
        chosen = np.array([graph.variable(v) for v in variables], int)
        note = ""
    return _bars(result, chosen, note, ax, title)


def _bars(result: Result, chosen: IntArray, note: str, ax: Axes | None, title: str) -> Axes:
    """A bar for each state of each variable, for a binary variable one: that of its second state."""
    s, marginals, spread = result.graph.structure, result.marginals, result.standard_errors
    assert marginals is not None
    labels: list[str] = []
    rows: list[tuple[float, float, float, str]] = []  # place, probability, error, colour
    place, shown = 0.0, 0
    for i in chosen.tolist():
        d = int(s.card[i])
        states = range(d) if d != 2 else range(1, 2)
        if rows and len(rows) + len(states) > _MOST_BARS:
            break
        for x in states[:_MOST_BARS]:
            error = 0.0 if spread is None else float(spread[i][x])
            rows.append((place, float(marginals[i][x]), error, CURVES[(0 if d == 2 else x) % len(CURVES)]))
            labels.append(f"{plain(s.variable_name(i), _LABEL)} = {plain(s.states_of(i)[x], _LABEL)}")
            place += 1.0
        place += 0.5 if len(states) > 1 else 0.15
        shown += 1
    if not rows:
        raise ModelError("there are no variables to draw")
    at, p, errors, colours = zip(*rows, strict=True)
    ax = axes_or_new(ax, 6.4, 1.1 + 0.24 * place)
    ax.barh(at, p, color=colours, height=0.8, xerr=errors if spread is not None else None, error_kw={"ecolor": INK})
    ax.set_yticks(at, labels, fontsize=9)
    few = f" ({shown} of {len(chosen):,} variables{note})" if shown < len(chosen) else ""
    ax.set(xlim=(0, 1), xlabel=f"probability{few}", ylim=(place, -1.0))
    return tidy(ax, title)


def _image(result: Result, shape: tuple[int, int], ax: Axes | None, title: str) -> Axes:
    """One cell per variable: P(X = 1) where all are binary, else the most probable state."""
    rows, cols = shape
    binary = bool(np.all(result.graph.card == 2))
    colors = free_figure()[1]
    if binary and result.marginals is not None:
        values: FloatArray = result.marginals.values.reshape(-1, 2)[:, 1]
        label, settings = "P(X = 1)", {"cmap": colors.LinearSegmentedColormap.from_list("spins", SPINS), "vmax": 1}
    else:
        states = [int(np.argmax(m)) for m in result.marginals] if result.marginals is not None else result.assignment
        values, label = np.asarray(states), "most probable state" if result.marginals is not None else "state"
        most = max(2, int(result.graph.card.max()))
        cmap = colors.ListedColormap(CURVES[:most]) if most <= len(CURVES) else "viridis"
        settings = {"cmap": cmap, "vmax": most - 1}
    side = float(np.clip(9.0 / max(rows, cols), 0.05, 0.55))
    ax = axes_or_new(ax, max(3.0, cols * side + 1.3), max(2.2, rows * side + 0.6))
    image = ax.imshow(values.reshape(rows, cols), vmin=0, **settings)
    if rows * cols <= _WITH_NUMBERS:
        _numbers(ax, values, cols, settings["vmax"])
    bar = ax.figure.colorbar(image, ax=ax, label=label, shrink=0.85)
    if values.dtype.kind != "f":
        bar.set_ticks(range(0, settings["vmax"] + 1, 1 + settings["vmax"] // 10))
    ax.set(xticks=[], yticks=[])
    tidy(ax, title)
    ax.spines[:].set_visible(False)
    return ax


def _numbers(ax: Axes, values: FloatArray, cols: int, most: Any) -> None:
    """The number of each cell, dark where the cell is light: the middle of one colour map, the end of another."""
    for i, value in enumerate(values.tolist()):
        light = abs(value - 0.5) < 0.33 if values.dtype.kind == "f" else most >= len(CURVES) and value > 0.6 * most
        text = f"{value:.2f}" if values.dtype.kind == "f" else str(value)
        ax.text(
            i % cols, i // cols, text, ha="center", va="center", fontsize=7.5, color=INK if light else "white"
        )  # fmt: skip
