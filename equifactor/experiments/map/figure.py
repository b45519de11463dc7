"""Error against time, a panel per collection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equifactor.experiments.map.config import MapExperiment

_FLOOR = 1e-5  # where a mean error of zero is drawn on a logarithmic axis


def draw(experiment: MapExperiment, points: Sequence[dict[str, Any]], path: Path) -> list[Path]:
    """PNG and SVG; both axes logarithmic, no error at all on the floor of the panel."""
    from matplotlib.figure import Figure

    names = [n for n in experiment.collections if any(p["collection"] == n for p in points)]
    figure = Figure(figsize=(3.2 * len(names) + 1.5, 3.4), layout="constrained")
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        for n, solver in enumerate(dict.fromkeys(p["solver"] for p in points)):
            mine = sorted((p["limit"], p["error"]) for p in points if p["solver"] == solver and p["collection"] == name)
            limits, errors = [limit for limit, _ in mine], [max(_FLOOR, error) for _, error in mine]
            size = 10 - 2 * min(n, 3)  # so that lines on top of each other can be told apart
            panel.plot(limits, errors, label=solver, marker="osD^v"[n % 5], markersize=size, fillstyle="none")
        panel.set(xscale="log", yscale="log", title=name, xlabel="time limit in seconds")
        ticks = sorted({p["limit"] for p in points})
        panel.set_xticks(ticks, [f"{limit:g}" for limit in ticks])
        panel.xaxis.minorticks_off()
        panel.set_ylim(bottom=0.6 * _FLOOR)
    panels[0].set_ylabel(f"mean UAI error ({_FLOOR:g}: none)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=7)
    written = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for file in written:
        figure.savefig(file, dpi=150)
    return written
