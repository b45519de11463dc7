"""The numbers of the tables: one cell per line and collection, from the answers on its models."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from experiments.map_answers import error_of
from experiments.report import deviation, mean
from experiments.run_store import Row

# The relative amount by which a score must exceed the best known score to count as better. Chosen by hand.
_BETTER = 1e-6


@dataclass(frozen=True)
class ErrorCell:
    """One line on one collection, over its models, seeds and folds.

    Attributes:
        answers: number of answers.
        error: mean error over the answers of positive probability; NaN if there are no such answers.
        spread: standard deviation over seeds; NaN for one seed.
        zero: number of answers of probability zero.
        missing: number of models without an answer.
        best: number of answers as good as the best known score.
        proven: number of answers that are proven to be optimal.
        gap: median of (upper bound - score) / |score|; NaN without bounds.
        seconds: mean time per model.
        seeds: number of seeds.
    """

    answers: int
    error: float
    spread: float
    zero: int
    missing: int
    best: int
    proven: int
    gap: float
    seconds: float
    seeds: int

    def text(self) -> str:
        """Return the error, and the number of answers that the error leaves out."""
        left = [f"{n} {what}" for n, what in ((self.zero, "zero"), (self.missing, "unanswered")) if n]
        error = "inf" if math.isnan(self.error) else f"{self.error:.4f}"
        spread = "" if math.isnan(self.spread) else f" ± {self.spread:.4f}"
        return error + spread + (f" ({', '.join(left)} of {self.answers})" if left else "")


ErrorCells = dict[str, dict[str, ErrorCell]]  # By line, then collection.


def cells_of(rows: Iterable[Row]) -> ErrorCells:
    """Return all cells; rows of one line and collection differ in model, seed and fold."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["line"], row["collection"]].append(row)
    cells: ErrorCells = defaultdict(dict)
    for (line, collection), mine in groups.items():
        cells[line][collection] = _cell(mine)
    return dict(cells)


def _cell(rows: Sequence[Row]) -> ErrorCell:
    errors = [error_of(row) for row in rows]
    seeds = list(dict.fromkeys(row["seed"] for row in rows))
    means = [mean([e for e, row in zip(errors, rows, strict=True) if row["seed"] == s and e < math.inf]) for s in seeds]
    gaps = sorted(g for row in rows if (g := gap_of(row)) is not None)
    zero = sum(bool(row.get("zero_probability")) for row in rows)
    return ErrorCell(
        answers=len(rows), error=mean([e for e in errors if e < math.inf]), spread=deviation(means), zero=zero,
        missing=sum(e == math.inf for e in errors) - zero, best=sum(e == 0.0 for e in errors),
        proven=sum(bool(row.get("proven")) for row in rows), gap=gaps[len(gaps) // 2] if gaps else math.nan,
        seconds=mean([row["seconds"] for row in rows]), seeds=len(seeds),
    )  # fmt: skip


def gap_of(row: Row) -> float | None:
    """Return the relative distance of the bound from the score, or None without a bound or score."""
    upper, score = row.get("upper_bound"), row.get("log_score")
    if upper is None or score is None or not math.isfinite(score):
        return None
    return max(0.0, upper - score) / max(1e-9, abs(score))


def improved(rows: Iterable[Row]) -> list[Row]:
    """Return the models with an answer above the best known score of the index, each with the lines that found one."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        score, best = row.get("log_score"), row.get("reference")
        if score is not None and best is not None and score > best + _BETTER * max(1.0, abs(best)):
            groups[row["collection"], row["instance"]].append(row)
    return [
        {
            "collection": collection, "instance": instance, "log_score": max(row["log_score"] for row in mine),
            "reference": mine[0]["reference"], "lines": list(dict.fromkeys(row["line"] for row in mine)),
        }
        for (collection, instance), mine in groups.items()
    ]  # fmt: skip
