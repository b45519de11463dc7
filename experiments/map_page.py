"""The page to read, in Markdown: tables of errors, times and certificates, and what is not there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from equifactor.text_tables import latex, markdown
from experiments.map_cells import ErrorCell, ErrorCells
from experiments.map_experiment import MapExperiment
from experiments.map_models import model_tables
from experiments.run_store import Row


def map_page(experiment: MapExperiment, results: Mapping[str, Any], table: ErrorCells, folds: ErrorCells) -> str:
    """Everything a reader wants to see, in one page."""
    weights = {row["line"]: row.get("weights", "") for row in results["answers"]}
    parts = [
        f"# {experiment.title}", "", *(text + "\n" for text in experiment.remarks),
        f"UAI MAP error, the mean of |(s* - s) / s*| over the test models, ± the standard deviation over seeds. "
        f"Answers of probability zero are counted beside it. {experiment.time_limit:g} s per model on one core.", "",
        *_split(experiment, results["split"], table, weights), *_goals(experiment, table),
        *_certificates(experiment, table), *_folds(experiment, folds, weights),
        *model_tables(experiment, results["models"], results["answers"]),
        *_curve(experiment, results["curve"]), *_remarks(results),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _split(
    experiment: MapExperiment, sizes: Mapping[str, Row], table: ErrorCells, weights: Mapping[str, str]
) -> list[str]:
    names = experiment.collections
    titles = [f"{n} ({s['train']} / {s['test']})" if (s := sizes.get(n)) else n for n in names]
    rows: list[list[Any]] = [["method", *titles, "seeds", "weights", "published"]]
    for name, cells in table.items():
        shown = [cells[n].text() if n in cells else "" for n in names]
        seeds = max(cell.seeds for cell in cells.values())
        rows.append([name, *shown, seeds, weights.get(name, ""), _published(experiment, name)])
    parts = ["## Test split", "", markdown(rows)]
    if table:
        seconds = [[n, *(_seconds(cells.get(c)) for c in names)] for n, cells in table.items()]
        parts += ["", "## Seconds per model", "", markdown([["method", *names], *seconds])]
    return parts


def _goals(experiment: MapExperiment, table: ErrorCells) -> list[str]:
    """Each goal beside what was reached; a goal is missed by answers of probability zero too."""
    if not experiment.goals:
        return []
    names = experiment.collections
    rows = [
        [name, *(_goal(table.get(name, {}).get(c), goal.get(c)) for c in names)]
        for name, goal in experiment.goals.items()
    ]
    said = "The error that was to be reached at most, and the one that was."
    return ["", "## Goals", "", said, "", markdown([["method", *names], *rows])]


def _goal(cell: ErrorCell | None, goal: float | None) -> str:
    if cell is None or goal is None:
        return "" if goal is None else f"{goal:g}: not run"
    held = cell.error <= goal and not cell.zero and not cell.missing
    return f"{goal:g}: {'yes' if held else '**no**'}, {cell.text()}"


def _certificates(experiment: MapExperiment, table: ErrorCells) -> list[str]:
    """Lines that proved something; the bounds that belief propagation gives prove nothing."""
    bounded = {n: cells for n, cells in table.items() if any(c.proven for c in cells.values())}
    if not bounded:
        return []
    names = experiment.collections
    rows = [[n, *(_proof(cells.get(c)) for c in names)] for n, cells in bounded.items()]
    said = "Proven optimal, as good as the best known, and the median relative gap to the upper bound."
    return ["", "## Certificates", "", said, "", markdown([["method", *names], *rows])]


def _folds(experiment: MapExperiment, folds: ErrorCells, weights: Mapping[str, str]) -> list[str]:
    if not folds:
        return []
    among = [n for n in experiment.collections if n in experiment.folds]
    titles = [f"{n}, {experiment.folds[n]} folds" for n in among]
    rows = [["method", *titles, "seconds per model", "weights"]]
    for name, cells in folds.items():
        shown = [cells[c].text() if c in cells else "" for c in among]
        seconds = ", ".join(_seconds(cells.get(c)) or "-" for c in among)
        rows.append([name, *shown, seconds, weights.get(name, "")])
    return ["", "## Cross-validation over all models", "", markdown(rows)]


def _curve(experiment: MapExperiment, points: Sequence[Row]) -> list[str]:
    if not points:
        return []
    limits = sorted({p["limit"] for p in points})
    rows = [["solver", "collection", *(f"{limit:g} s" for limit in limits)]]
    for solver in dict.fromkeys(p["solver"] for p in points):
        for name in experiment.collections:
            mine = {p["limit"]: p for p in points if p["solver"] == solver and p["collection"] == name}
            if mine:
                rows.append([solver, name, *(_point(mine.get(t)) for t in limits)])
    said = "No answer counts as an error of 1; in brackets, how many are proven."
    return ["", "## Error against time", "", said, "", markdown(rows)]


def _point(point: Row | None) -> str:
    if point is None:
        return ""
    return f"{point['error']:.4f}" + f" ({point['proven']})" * bool(point["proven"])


def _remarks(results: Mapping[str, Any]) -> list[str]:
    parts = []
    if results["doubles"]:
        titles = ["collection", "test models", "isomorphic to a training model", "up to unary tables"]
        rows = [
            [d["collection"], d["test"], len(d["isomorphic"]), len(d["same_larger_tables"])] for d in results["doubles"]
        ]
        parts += ["", "## Test models that are training models", "", markdown([titles, *rows])]
    parts += ["", "## Better than the best known score", ""]
    for r in results["improved"]:
        parts.append(
            f"- {r['collection']}/{r['instance']}: {r['log_score']:.6f} by {', '.join(r['lines'])}; best known "
            f"{r['reference']:.6f}"
        )
    if not results["improved"]:
        parts.append("No answer.")
    if results["missing"]:
        parts += ["", "## Not here", "", *(f"- {sentence}" for sentence in results["missing"])]
    return parts


def _published(experiment: MapExperiment, name: str) -> str:
    known = experiment.published.get(name, {})
    return ", ".join(f"{known[n]:g}" if n in known else "-" for n in experiment.collections) if known else ""


def _proof(cell: ErrorCell | None) -> str:
    if cell is None:
        return ""
    gap = "" if math.isnan(cell.gap) else f", gap {cell.gap:.2g}"
    return f"{cell.proven} proven, {cell.best} best of {cell.answers}{gap}"


def _seconds(cell: ErrorCell | None) -> str:
    return "" if cell is None else f"{cell.seconds:.3g}"


def map_latex(experiment: MapExperiment, table: ErrorCells) -> str:
    """The table of the test split in LaTeX, ready to be included."""
    names = experiment.collections
    best = {n: min((c[n].error for c in table.values() if n in c and not c[n].zero), default=math.nan) for n in names}
    rows = [
        [name, *(_latex_cell(cells[n], best[n]) if n in cells else "--" for n in names)]
        for name, cells in table.items()
    ]
    return latex([["method", *names], *rows]) + "\n"


def _latex_cell(cell: ErrorCell, best: float) -> str:
    if cell.zero or cell.missing or math.isnan(cell.error):
        return "$\\infty$"
    text = f"{cell.error:.4f}"
    return f"\\textbf{{{text}}}" if cell.error <= best else text
