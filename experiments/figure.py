"""Error against time, a panel per collection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.map_config import MapExperiment

_LINEAR = 1e-4  # below this error the axis is linear, so that no error at all has a place on it
_MARKERS = "osD^vP"
_STYLES = ("-", "--", "-.", ":")  # lines on top of each other can be told apart, in print too


def draw(experiment: MapExperiment, points: Sequence[dict[str, Any]], path: Path) -> list[Path]:
    """PNG and SVG; time on a logarithmic axis, the error on one that is linear around zero."""
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
        for n, solver in enumerate(solvers):
            mine = sorted((p["limit"], p["error"]) for p in points if (p["solver"], p["collection"]) == (solver, name))
            (drawn,) = panel.plot(
                [limit for limit, _ in mine], [error for _, error in mine], label=solver, clip_on=False, zorder=3,
                marker=_MARKERS[n % 6], markersize=9 - 2 * min(n, 3), fillstyle="none", linestyle=_STYLES[n % 4],
            )  # fmt: skip
            drawn.set_in_layout(False)  # what is not clipped would make room for itself
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
    written = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for file in written:
        figure.savefig(file, dpi=150)
    return written
