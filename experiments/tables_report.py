"""Finished runs as a table (Markdown, LaTeX), a figure and one JSON file with what produced them."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equifactor.evaluation.provenance import provenance
from equifactor.io.files import write_text
from experiments.config import Experiment


@dataclass(frozen=True)
class Line:
    """One row of a table: the mean over seeds."""

    name: str
    size: int | None
    seeds: int
    kl: float
    kl_stderr: float
    rmse: float
    rmse_stderr: float
    seconds: float


def lines_of(rows: Sequence[dict[str, Any]]) -> list[Line]:
    """Runs that differ in the seed alone become one line.

    The standard error joins that over test graphs (the same for every seed, so it does not shrink with seeds) and that
    over seeds.
    """
    groups: dict[tuple[str, int | None], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["name"], row["size"]].append(row)
    return [
        Line(name, size, len(same), *_joined(same, "kl"), *_joined(same, "rmse"), _mean([r["seconds"] for r in same]))
        for (name, size), same in groups.items()
    ]


def _joined(rows: list[dict[str, Any]], measure: str) -> tuple[float, float]:
    values = [row[measure] for row in rows]
    mean = _mean(values)
    graphs = _mean([row[f"{measure}_stderr"] for row in rows])
    if len(values) < 2:
        return mean, graphs
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
    return mean, math.hypot(graphs, spread)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def markdown(experiment: Experiment, lines: Sequence[Line]) -> str:
    """A table per training size; solvers that need no training stand in each of them."""
    parts = [f"# {experiment.title}", "", f"Test graphs: `{experiment.test}`. KL and RMSE +- one standard error."]
    for size in experiment.sizes:
        here = [line for line in lines if line.size in (None, size)]
        parts += ["", f"## {size:,} training graphs", ""]
        parts += ["| method | KL | RMSE | seeds | seconds | published KL, RMSE |", "|---|---|---|---|---|---|"]
        for line in sorted(here, key=lambda line: -line.kl):
            known = experiment.published.get(line.name, {})
            published = f"{known['kl']:.4f}, {known['rmse']:.4f}" if known else ""
            seeds = "" if line.size is None else str(line.seeds)
            parts.append(
                f"| {line.name} | {line.kl:.5f} +- {line.kl_stderr:.5f} | {line.rmse:.4f} +- {line.rmse_stderr:.4f} "
                f"| {seeds} | {line.seconds:.0f} | {published} |"
            )
    return "\n".join(parts) + "\n"


def families_table(experiment: Experiment, rows: Sequence[dict[str, Any]]) -> str:
    """KL on every family, a column each; the mean over seeds. Bold is the best of a column."""
    names = [f.name for f in experiment.families]
    groups: dict[tuple[str, int | None], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if "families" in row:
            groups[row["name"], row["size"]].append(row["families"])
    cells = {
        key: [_mean([s[f]["kl"] for s in same]) if same[0][f]["kl"] is not None else None for f in names]
        for key, same in groups.items()
    }
    best = [min((v for c in cells.values() if (v := c[n]) is not None), default=None) for n in range(len(names))]
    parts = [
        "",
        "## Other families of graphs, KL",
        "",
        f"| method | {' | '.join(names)} |",
        "|---" * (len(names) + 1) + "|",
    ]
    for (name, _), values in cells.items():
        shown = ["" if v is None else f"**{v:.3g}**" if v == best[n] else f"{v:.3g}" for n, v in enumerate(values)]
        parts.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(parts) + "\n"


def steps_table(rows: Sequence[dict[str, Any]]) -> str:
    """KL after each number of steps, the mean over seeds; a column per number."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if "steps" in row:
            groups[row["name"]].append(row["steps"])
    counts = sorted({int(n) for same in groups.values() for n in same[0]})
    parts = ["", "## After more and fewer steps, KL", "", f"| method | {' | '.join(map(str, counts))} |"]
    parts.append("|---" * (len(counts) + 1) + "|")
    for name, same in groups.items():
        values = [f"{_mean([s[str(n)]['kl'] for s in same]):.4g}" if str(n) in same[0] else "" for n in counts]
        parts.append(f"| {name} | {' | '.join(values)} |")
    return "\n".join(parts) + "\n"


def tuning_table(tuned: Sequence[dict[str, Any]]) -> str:
    """Validation KL of each learning rate that was tried; the best is bold and was taken."""
    groups: dict[str, dict[float, float]] = defaultdict(dict)
    for row in tuned:
        kl = row["validation_kl"]
        groups[row["name"]][row["settings"]["lr"]] = math.inf if kl is None else kl
    lrs = sorted({lr for found in groups.values() for lr in found})
    parts = ["", "## Learning rates, validation KL", "", f"| method | {' | '.join(f'{lr:g}' for lr in lrs)} |"]
    parts.append("|---" * (len(lrs) + 1) + "|")
    for name, found in groups.items():
        best = min(found.values())
        cells = [f"**{v:.4g}**" if (v := found.get(lr)) == best else "" if v is None else f"{v:.4g}" for lr in lrs]
        parts.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(parts) + "\n"


def latex(experiment: Experiment, lines: Sequence[Line]) -> str:
    """The same table, ready to be included."""
    parts = ["\\begin{tabular}{lrr}", "\\hline", "method & KL & RMSE \\\\"]
    for size in experiment.sizes:
        parts += ["\\hline", f"\\multicolumn{{3}}{{l}}{{{size:,} training graphs}} \\\\", "\\hline"]
        for line in sorted((line for line in lines if line.size in (None, size)), key=lambda line: -line.kl):
            kl, rmse = f"{line.kl:.4f} \\pm {line.kl_stderr:.4f}", f"{line.rmse:.4f} \\pm {line.rmse_stderr:.4f}"
            parts.append(f"{line.name} & ${kl}$ & ${rmse}$ \\\\")
    return "\n".join([*parts, "\\hline", "\\end{tabular}"]) + "\n"


def draw(experiment: Experiment, lines: Sequence[Line], path: Path) -> None:
    """KL and RMSE against the number of training graphs, axes logarithmic; two panels as in the paper's figure."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5), layout="constrained")
    names = list(dict.fromkeys(line.name for line in lines))
    trained = [name for name in names if any(line.name == name and line.size is not None for line in lines)]
    for panel, measure in zip(figure.subplots(1, 2), ("kl", "rmse"), strict=True):
        for name in names:
            mine = sorted((line for line in lines if line.name == name), key=lambda line: line.size or 0)
            values = [getattr(line, measure) for line in mine]
            if name not in trained:
                _level(panel, name, values[0])
                continue
            n, ours = trained.index(name), name.startswith("FE-")
            panel.errorbar(
                [line.size for line in mine], values, [getattr(line, f"{measure}_stderr") for line in mine],
                color=colormaps["tab20"](n % 20), marker="osv^D"[n % 5], markersize=4, capsize=2, label=name,
                linestyle="-" if ours else "--", linewidth=1.8 if ours else 1.0,
            )  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel="training graphs", ylabel={"kl": "KL"}.get(measure, "RMSE"))
    figure.suptitle(experiment.title)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=7)
    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=150)


def _level(panel: Any, name: str, value: float) -> None:
    """A dotted line for a method without training, its name to the right of it."""
    panel.axhline(value, linestyle=":", linewidth=1, color="grey")
    place = {"xycoords": ("axes fraction", "data"), "va": "center", "annotation_clip": False}
    panel.annotate(name, (1.01, value), fontsize=6, color="dimgrey", **place)


def draw_steps(experiment: Experiment, rows: Sequence[dict[str, Any]], path: Path) -> None:
    """KL against the number of steps a network is run for, a line per network; the mean over seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    panel = figure.subplots()
    for row in rows:
        if row["seed"] is None and "steps" not in row:
            _level(panel, row["name"], row["kl"])
    for name in dict.fromkeys(row["name"] for row in rows if "steps" in row):
        same = [row["steps"] for row in rows if row["name"] == name and "steps" in row]
        counts = sorted(map(int, same[0]))
        panel.plot(
            counts, [_mean([s[str(n)]["kl"] for s in same]) for n in counts], marker="o", markersize=3, label=name
        )
    panel.set(xscale="log", yscale="log", xlabel="steps", ylabel="KL", title=experiment.title)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=7)
    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=150)


def write(
    experiment: Experiment,
    rows: Sequence[dict[str, Any]],
    folder: Path,
    *,
    tuned: Sequence[dict[str, Any]] = (),
    figure: bool,
) -> list[Path]:
    """All files of a finished (or half finished) experiment; returns their paths."""
    lines = lines_of(rows)
    results = {"experiment": experiment.name, "provenance": provenance(), "tuning": list(tuned), "runs": list(rows)}
    files = {
        "results.json": json.dumps(results, indent=1),
        "table.md": markdown(experiment, lines)
        + (families_table(experiment, rows) if experiment.families else "")
        + (tuning_table(tuned) if tuned else "")
        + (steps_table(rows) if experiment.step_factors else ""),
        "table.tex": latex(experiment, lines),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(folder / name, text)
    written = [folder / name for name in files]
    if figure and experiment.step_factors:
        draw_steps(experiment, rows, folder / "steps")
        written += [folder / "steps.png", folder / "steps.svg"]
    if figure and len(experiment.sizes) > 1:
        draw(experiment, lines, folder / "figure")
        written += [folder / "figure.png", folder / "figure.svg"]
    return written
