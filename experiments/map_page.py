"""The page of an experiment on MAP in Markdown: tables of errors, times and certificates, and the missing runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from equifactor.data import Instance
from equifactor.show.text_tables import latex, markdown
from experiments.map_answers import error_of
from experiments.map_cells import ErrorCell, ErrorCells, gap_of
from experiments.map_experiment import MapExperiment
from experiments.map_splits import ModelSplit
from experiments.run_store import Row

_DENSE = 0.5  # A model is dense if at least this share of all pairs of variables shares a factor. Chosen by hand.
_INTRODUCTION = (
    "Test models, and all models of the cross-validated collections. A model is dense if at least half of all pairs of "
    "variables share a factor. The gap is relative to the score."
)


def map_page(experiment: MapExperiment, results: Mapping[str, Any], table: ErrorCells, folds: ErrorCells) -> str:
    """Return the page with all tables."""
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
    """Return each goal with the error that was reached; answers of probability zero also miss a goal."""
    if not experiment.goals:
        return []
    names = experiment.collections
    rows = [
        [name, *(_goal(table.get(name, {}).get(c), goal.get(c)) for c in names)]
        for name, goal in experiment.goals.items()
    ]
    about = "The largest error that meets the goal, and the error that was reached."
    return ["", "## Goals", "", about, "", markdown([["method", *names], *rows])]


def _goal(cell: ErrorCell | None, goal: float | None) -> str:
    if cell is None or goal is None:
        return "" if goal is None else f"{goal:g}: not run"
    held = cell.error <= goal and not cell.zero and not cell.missing
    return f"{goal:g}: {'yes' if held else '**no**'}, {cell.text()}"


def _certificates(experiment: MapExperiment, table: ErrorCells) -> list[str]:
    """Return the table of lines that proved an optimum; the bounds of belief propagation prove no optimum."""
    bounded = {n: cells for n, cells in table.items() if any(c.proven for c in cells.values())}
    if not bounded:
        return []
    names = experiment.collections
    rows = [[n, *(_proof(cells.get(c)) for c in names)] for n, cells in bounded.items()]
    about = "Answers proven optimal, answers as good as the best known, and the median relative gap to the upper bound."
    return ["", "## Certificates", "", about, "", markdown([["method", *names], *rows])]


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
    about = "A missing answer counts as an error of 1. The number of proven answers is in brackets."
    return ["", "## Error against time", "", about, "", markdown(rows)]


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
        parts += ["", "## Missing", "", *(f"- {sentence}" for sentence in results["missing"])]
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
    """Return the table of the test split in LaTeX, ready to be included."""
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


def describe(splits: Sequence[ModelSplit]) -> list[Row]:
    """Return a row about every test model from the index, the small models of a collection first."""
    instances = {i.key: i for split in splits for i in split.test}
    order = list(dict.fromkeys(i.collection for i in instances.values()))
    rows = [_describe(i) for i in instances.values()]
    return sorted(
        rows, key=lambda r: (order.index(r["collection"]), r["variables"] or 0, r["factors"] or 0, r["model"])
    )


def _describe(instance: Instance) -> Row:
    variables, factors = instance.record.get("variables"), instance.record.get("factors")
    dense = None  # The index does not state the size.
    if variables and factors:
        dense = factors - variables >= _DENSE * variables * (variables - 1) / 2
    return {
        "collection": instance.collection, "model": instance.name, "variables": variables, "factors": factors,
        "dense": dense, "best_known": instance.map_log_score, "optimal": instance.map_is_optimal,
    }  # fmt: skip


def model_tables(experiment: MapExperiment, models: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    """Return a table of proofs by collection and density, and a table of all models, for the lines of `details`.

    A model that is in the test split and in a fold was solved once and is shown once.
    """
    found = {(r["line"], r["collection"], r["instance"]): r for r in rows if r["line"] in experiment.details}
    names = [n for n in experiment.details if any(key[0] == n for key in found)]
    if not names:
        return []
    parts = ["", "## Model by model", "", _INTRODUCTION, ""]
    parts += [markdown([("models", *names), *_summary(models, names, found)]), ""]
    table: list[tuple[object, ...]] = [("model", "variables", "factors", "best known", *names)]
    for m in models:
        mine = [found.get((n, m["collection"], m["model"])) for n in names]
        if any(mine):
            known = f"{m['best_known']:.4f}{', optimal' * bool(m.get('optimal'))}"
            title = f"{m['collection']}/{m['model']}"
            table.append((title, m["variables"] or "", m["factors"] or "", known, *(_verdict(r) for r in mine)))
    return [*parts, markdown(table)]


def _summary(models: Sequence[Row], names: Sequence[str], found: Mapping[tuple[str, str, str], Row]) -> list[list[str]]:
    lines = []
    for collection in dict.fromkeys(m["collection"] for m in models):
        kinds = {m.get("dense") for m in models if m["collection"] == collection}
        for kind in sorted(kinds, key=bool):
            chosen = [m["model"] for m in models if (m["collection"], m.get("dense")) == (collection, kind)]
            title = collection + (f", {'dense' if kind else 'sparse'}" if len(kinds) > 1 else "")
            answers = [[r for m in chosen if (r := found.get((n, collection, m)))] for n in names]
            lines.append([title, *(_proofs(mine) for mine in answers)])
    return lines


def _proofs(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    gaps = [math.inf if (g := gap_of(row)) is None else g for row in rows]
    proven = sum(bool(row.get("proven")) for row in rows)
    return f"{proven} of {len(rows)} proven" + ("" if proven == len(rows) else f", largest gap {max(gaps):.2g}")


def _verdict(row: Row | None) -> str:
    if row is None:
        return ""
    seconds, gap = f"{row['seconds']:.3g} s", gap_of(row)
    if row.get("proven"):
        return f"proven, {seconds}"
    return f"error {error_of(row):.2g}, {'no bound' if gap is None else f'gap {gap:.2g}'}, {seconds}"
