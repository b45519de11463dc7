"""The picture of `TrainingLog.plot`: loss and validation over the epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equifactor.base.errors import SolveError
from equifactor.show.canvas import CURVES, axes_or_new, plain, tidy
from equifactor.show.palette import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from equifactor.learning.training.training_log import TrainingLog


def draw_training(log: TrainingLog, ax: Axes | None) -> Axes:
    """Draw the picture of `TrainingLog.plot`. Loss and measure differ in scale, so each has its own axis."""
    if not log.records or log.measure is None:
        raise SolveError("The training log is empty, so there is nothing to draw yet.")
    ax = axes_or_new(ax, 6.4, 3.6)
    names = [log.measure, *(["loss"] if any(r.get("loss") is not None for r in log.records) else [])]
    for n, (name, axis) in enumerate(zip(names, (ax, ax.twinx() if len(names) > 1 else ax), strict=False)):
        colour = CURVES[n]
        points = [(r["epoch"], r[name]) for r in log.records if r.get(name) is not None]
        at, values = zip(*points, strict=True) if points else ((), ())
        axis.plot(
            at,
            values,
            color=colour,
            linewidth=1.6,
            marker=style(n).marker,
            markersize=4,
            markevery=max(1, len(points) // 20),
            linestyle=style(8 * n).dashes,
        )
        axis.set_ylabel(f"validation {plain(name)}" if name != "loss" else "training loss", color=colour)
        axis.tick_params(axis="y", colors=colour)
        if values and min(values) > 0 and max(values) > 5 * min(values):
            axis.set_yscale("log")
    best = next((r for r in log.records if r["epoch"] == log.best_epoch), None)
    if best is not None:
        ax.plot(best["epoch"], best[log.measure], marker="*", markersize=13, color=CURVES[0])
    ax.set_xlabel("epoch")
    tidy(ax, str(log))
    ax.spines["right"].set_visible(len(names) > 1)
    return ax
