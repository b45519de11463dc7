"""Answers as tables: Markdown for people, LaTeX for a paper."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equifactor.experiments.map.config import MapExperiment
from equifactor.experiments.map.solving import error_of

Row = dict[str, Any]
_BETTER = 1e-6  # by so much, relatively, a score must exceed the best known one


@dataclass(frozen=True)
class Cell:
    """One line on one collection, over its models, seeds and folds."""

    answers: int
    error: float  # mean over the answers of positive probability; NaN when there are none
    spread: float  # standard deviation over seeds; NaN for one seed
    zero: int  # answers of probability zero
    missing: int  # models without an answer
    best: int  # as good as the best known score
    proven: int
    gap: float  # median of (upper bound - score) / |score|; NaN where no bound is given
    seconds: float  # mean per model
    seeds: int

    def text(self) -> str:
        """The error, and what it leaves out."""
        left = [f"{n} {what}" for n, what in ((self.zero, "zero"), (self.missing, "unanswered")) if n]
        error = "inf" if math.isnan(self.error) else f"{self.error:.4f}"
        spread = "" if math.isnan(self.spread) else f" ± {self.spread:.4f}"
        return error + spread + (f" ({', '.join(left)} of {self.answers})" if left else "")


Cells = dict[str, dict[str, Cell]]  # by line, then collection


def cells_of(rows: Iterable[Row]) -> Cells:
    """All cells; rows of one line and collection differ in model, seed and fold."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["line"], row["collection"]].append(row)
    cells: Cells = defaultdict(dict)
    for (line, collection), mine in groups.items():
        cells[line][collection] = _cell(mine)
    return dict(cells)


def _cell(rows: Sequence[Row]) -> Cell:
    errors = [error_of(row) for row in rows]
    seeds = list(dict.fromkeys(row["seed"] for row in rows))
    means = [
        _mean([e for e, row in zip(errors, rows, strict=True) if row["seed"] == s and e < math.inf]) for s in seeds
    ]
    gaps = sorted(g for row in rows if (g := gap_of(row)) is not None)
    zero = sum(bool(row.get("zero_probability")) for row in rows)
    return Cell(
        answers=len(rows), error=_mean([e for e in errors if e < math.inf]), spread=_deviation(means), zero=zero,
        missing=sum(e == math.inf for e in errors) - zero, best=sum(e == 0.0 for e in errors),
        proven=sum(bool(row.get("proven")) for row in rows), gap=gaps[len(gaps) // 2] if gaps else math.nan,
        seconds=_mean([row["seconds"] for row in rows]), seeds=len(seeds),
    )  # fmt: skip


def gap_of(row: Row) -> float | None:
    """Relative distance of the bound from the score; None without bound or score."""
    upper, score = row.get("upper_bound"), row.get("log_score")
    if upper is None or score is None or not math.isfinite(score):
        return None
    return max(0.0, upper - score) / max(1e-9, abs(score))


def improved(rows: Iterable[Row]) -> list[Row]:
    """Answers that beat the best known score of the index."""
    found = []
    for row in rows:
        score, best = row.get("log_score"), row.get("reference")
        if score is not None and best is not None and score > best + _BETTER * max(1.0, abs(best)):
            found.append({k: row[k] for k in ("line", "collection", "instance", "log_score", "reference")})
    return found


# ---- Markdown -------------------------------------------------------------------------------------------


def markdown(experiment: MapExperiment, results: Mapping[str, Any], table: Cells, folds: Cells) -> str:
    """Everything a reader wants to see, in one page."""
    names = experiment.collections
    weights = {row["line"]: row["weights"] for row in results["answers"]}
    parts = [
        f"# {experiment.title}", "",
        f"UAI MAP error, the mean of |(s* - s) / s*| over the test models, ± the standard deviation over seeds. "
        f"Answers of probability zero are counted beside it. {experiment.time_limit:g} s per model on one core.", "",
        "## Test split", "",
    ]  # fmt: skip
    sizes = [f"{n} ({s['train']} / {s['test']})" if (s := results["split"].get(n)) else n for n in names]
    parts += _table(["method", *sizes, "weights", "published"])
    for line, cells in table.items():
        shown = [cells[n].text() if n in cells else "" for n in names]
        parts.append(_row(line, *shown, weights.get(line, ""), _published(experiment, line)))
    if table:
        parts += ["", "## Seconds per model", "", *_table(["method", *names])]
        parts += [_row(n, *(_seconds(cells.get(c)) for c in names)) for n, cells in table.items()]
    bounded = {n: cells for n, cells in table.items() if any(c.proven for c in cells.values())}
    if bounded:
        parts += ["", "## Certificates", ""]
        parts += ["Proven optimal, as good as the best known, and the median relative gap to the upper bound.", ""]
        parts += [*_table(["method", *names])]
        parts += [_row(n, *(_proof(cells.get(c)) for c in names)) for n, cells in bounded.items()]
    if folds:
        among = [n for n in names if n in experiment.folds]
        heads = [f"{n}, {experiment.folds[n]} folds" for n in among]
        parts += ["", "## Cross-validation over all models", "", *_table(["method", *heads])]
        parts += [_row(n, *(cells[c].text() if c in cells else "" for c in among)) for n, cells in folds.items()]
    if results["curve"]:
        parts += ["", "## Error against time", "", "No answer counts as an error of 1.", ""]
        parts += _curve_table(experiment, results["curve"])
    parts += _remarks(results)
    return "\n".join(parts) + "\n"


def _curve_table(experiment: MapExperiment, points: Sequence[Row]) -> list[str]:
    limits = sorted({p["limit"] for p in points})
    lines = _table(["solver", "collection", *(f"{limit:g} s" for limit in limits)])
    for solver in dict.fromkeys(p["solver"] for p in points):
        for name in experiment.collections:
            mine = {p["limit"]: p for p in points if p["solver"] == solver and p["collection"] == name}
            if mine:
                lines.append(_row(solver, name, *(f"{mine[t]['error']:.4f}" if t in mine else "" for t in limits)))
    return lines


def _remarks(results: Mapping[str, Any]) -> list[str]:
    parts = []
    if results["doubles"]:
        parts += ["", "## Test models that are training models", ""]
        parts += _table(["collection", "test models", "isomorphic to a training model", "up to unary tables"])
        for d in results["doubles"]:
            parts.append(_row(d["collection"], d["test"], len(d["isomorphic"]), len(d["same_larger_tables"])))
    if results["improved"]:
        parts += ["", "## Better than the best known score", ""]
        for r in results["improved"]:
            parts.append(
                f"- {r['collection']}/{r['instance']}: {r['log_score']:.6f} by {r['line']}, {r['reference']:.6f}"
            )
    if results["missing"]:
        parts += ["", "## Not here", "", *(f"- {sentence}" for sentence in results["missing"])]
    return parts


def _published(experiment: MapExperiment, line: str) -> str:
    known = experiment.published.get(line, {})
    return ", ".join(f"{known[n]:g}" if n in known else "-" for n in experiment.collections) if known else ""


def _proof(cell: Cell | None) -> str:
    if cell is None:
        return ""
    gap = "" if math.isnan(cell.gap) else f", gap {cell.gap:.2g}"
    return f"{cell.proven} proven, {cell.best} best of {cell.answers}{gap}"


def _seconds(cell: Cell | None) -> str:
    return "" if cell is None else f"{cell.seconds:.3g}"


def _table(heads: Sequence[Any]) -> list[str]:
    return [_row(*heads), "|---" * len(heads) + "|"]


def _row(*values: Any) -> str:
    return "| " + " | ".join(str(v) for v in values) + " |"


# ---- LaTeX ----------------------------------------------------------------------------------------------


def latex(experiment: MapExperiment, table: Cells) -> str:
    """The table of the test split, ready to be included."""
    names = experiment.collections
    best = {n: min((c[n].error for c in table.values() if n in c and not c[n].zero), default=math.nan) for n in names}
    body = []
    for line, cells in table.items():
        shown = [_latex_cell(cells[n], best[n]) if n in cells else "--" for n in names]
        body.append(f"{line} & {' & '.join(shown)} \\\\")
    head = [f"\\begin{{tabular}}{{l{'r' * len(names)}}}", "\\hline", f"method & {' & '.join(names)} \\\\", "\\hline"]
    return "\n".join([*head, *body, "\\hline", "\\end{tabular}"]) + "\n"


def _latex_cell(cell: Cell, best: float) -> str:
    if cell.zero or cell.missing or math.isnan(cell.error):
        return "$\\infty$"
    text = f"{cell.error:.4f}"
    return f"\\textbf{{{text}}}" if cell.error <= best else text


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _deviation(values: Sequence[float]) -> float:
    if len(values) < 2:
        return math.nan
    mean = _mean(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
