"""The figures of all experiments, as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equifactor.show.palette import styles_of
from experiments.map_experiment import MapExperiment
from experiments.marginal_experiment import MarginalExperiment
from experiments.marginal_page import SeedMean
from experiments.report import mean
from experiments.run_store import Row

_LINEAR = 1e-4  # The axis of errors is linear below this value, so that an error of 0 can be drawn. Chosen by hand.
_MARKERS = "osD^vP"  # The markers of the solvers.
_STYLES = ("-", "--", "-.", ":")  # The styles of the lines, which distinguish overlapping lines in print.


def draw_sizes(experiment: MarginalExperiment, means: Sequence[SeedMean], path: Path) -> None:
    """Draw KL and RMSE against the number of training graphs on logarithmic axes, in two panels as in the paper."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5), layout="constrained")
    names = list(dict.fromkeys(m.name for m in means))
    trained = [name for name in names if any(m.name == name and m.size is not None for m in means)]
    styles = styles_of(trained)
    for panel, measure in zip(figure.subplots(1, 2), ("kl", "rmse"), strict=True):
        for name in names:
            mine = sorted((m for m in means if m.name == name), key=lambda m: m.size or 0)
            values = [getattr(m, measure) for m in mine]
            if name not in trained:
                _draw_level(panel, name, values[0])
                continue
            colour, marker, dashes = styles[name]
            panel.errorbar(
                [m.size for m in mine], values, [getattr(m, f"{measure}_stderr") for m in mine],
                color=colour, marker=marker, linestyle=dashes, markersize=5, capsize=2, label=name,
                linewidth=1.8 if name.startswith("FE-") else 1.0,
            )  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel="training graphs", ylabel={"kl": "KL"}.get(measure, "RMSE"))
    figure.suptitle(experiment.title)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=7)
    figure.savefig(path, dpi=150)


def draw_steps(experiment: MarginalExperiment, rows: Sequence[Row], path: Path) -> None:
    """Draw KL against the number of steps of a network, one line per network; the mean over seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    panel = figure.subplots()
    for row in rows:
        if row["seed"] is None and "steps" not in row:
            _draw_level(panel, row["name"], row["kl"])
    for name, (colour, marker, dashes) in styles_of(row["name"] for row in rows if "steps" in row).items():
        same = [row["steps"] for row in rows if row["name"] == name and "steps" in row]
        counts = sorted(map(int, same[0]))
        values = [mean([s[str(n)]["kl"] for s in same]) for n in counts]
        panel.plot(counts, values, color=colour, marker=marker, linestyle=dashes, markersize=4, label=name)
    panel.set(xscale="log", yscale="log", xlabel="steps", ylabel="KL", title=experiment.title)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=7)
    figure.savefig(path, dpi=150)


def draw_curve(experiment: MapExperiment, points: Sequence[Row], path: Path) -> None:
    """Draw error against time, one panel per collection; the axis of errors is linear around zero."""
    from matplotlib.figure import Figure

    names = [n for n in experiment.collections if any(p["collection"] == n for p in points)]
    columns = min(2, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(4.4 * columns, 2.9 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    solvers = list(dict.fromkeys(p["solver"] for p in points))
    limits = sorted({p["limit"] for p in points})
    for panel in panels.flat:
        panel.set_xscale("log")
        panel.set_yscale("symlog", linthresh=_LINEAR)
        panel.set(xlim=(limits[0] / 1.2, limits[-1] * 1.2), ylim=(0.0, 1.0))
    for panel, name in zip(panels.flat, names, strict=False):
        _draw_collection(panel, [p for p in points if p["collection"] == name], solvers)
        panel.set_title(name, loc="left", fontsize=10)
        panel.set_yticks([0.0, *(10.0**n for n in range(-4, 1))], ["0", "0.0001", "0.001", "0.01", "0.1", "1"])
        panel.set_xticks(limits, [f"{limit:g}" for limit in limits])
        panel.minorticks_off()
        panel.grid(color="0.9", linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels.flat[len(names) :]:
        panel.set_visible(False)
    figure.supxlabel("time limit, seconds on one core", fontsize=10)
    figure.supylabel("mean UAI error", fontsize=10)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)


def _draw_collection(panel: Any, points: Sequence[Row], solvers: Sequence[str]) -> None:
    for n, solver in enumerate(solvers):
        mine = sorted((p["limit"], p["error"]) for p in points if p["solver"] == solver)
        (drawn,) = panel.plot(
            [limit for limit, _ in mine], [error for _, error in mine], label=solver, clip_on=False, zorder=3,
            marker=_MARKERS[n % 6], markersize=9 - 2 * min(n, 3), fillstyle="none", linestyle=_STYLES[n % 4],
        )  # fmt: skip
        drawn.set_in_layout(False)  # Markers that are not clipped would otherwise shrink the panel.


def _draw_level(panel: Any, name: str, value: float) -> None:
    """Draw a dotted line for a method without training, with its name to the right."""
    panel.axhline(value, linestyle=":", linewidth=1, color="grey")
    place = {"xycoords": ("axes fraction", "data"), "va": "center", "annotation_clip": False}
    panel.annotate(name, (1.01, value), fontsize=6, color="dimgrey", **place)
