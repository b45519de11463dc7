"""The score card of MAP over all collections, beside the board of the UAI-2022 competition.

The board is a CSV file with the columns task, problem, best_log10_value, trivial_solver_log10 and best_score_20s. A
model with the name of a problem on the board is also scored by the board's rule and trivial answer. So the two last
columns of the card can be compared. The trivial answer of `equifactor evaluate` is stronger (docs/evaluate.md).
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from equifactor.show.text_tables import markdown
from experiments.report import mean
from experiments.run_store import Row

_ROUNDING = 0.06  # The largest difference of equal log10 values: the board states them with one decimal.
_TITLES = [
    "collection", "models", "score", "UAI error", "zero", "best known", "proven", "mean s", "max s", "on the board",
    "its rule, ours", "its rule, best at 20 s",
]  # fmt: skip


def read_board(lines: Iterable[str]) -> dict[str, Row]:
    """Read best value, trivial value and best score at 20 s by problem; the first complete row of a problem counts."""
    board: dict[str, Row] = {}
    for row in csv.DictReader(lines):
        wanted = ("best_log10_value", "trivial_solver_log10", "best_score_20s")
        if row["task"] == "MPE" and all(row[name] for name in wanted):
            board.setdefault(row["problem"], {name: float(row[name]) for name in wanted})
    return board


def board_score(row: Row, known: Row) -> float | None:
    """Return 100 (1 - error / trivial error) with the board's trivial answer; None if the board has another model."""
    value = row.get("reference_value", row["reference"])  # Before version 0.2, reference was the value itself.
    if value is None:
        return None
    best = value / math.log(10)
    if abs(best - known["best_log10_value"]) > _ROUNDING:
        return None
    if row.get("log_score") in (None, "-inf"):
        return 0.0
    error = max(0.0, best - row["log_score"] / math.log(10))
    return max(0.0, 100.0 * (1.0 - error / max(1e-9, best - known["trivial_solver_log10"])))


def score_card(rows: Sequence[Row], board: dict[str, Row]) -> str:
    """Return a table in Markdown with one line per collection and one line for all collections."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["collection"]].append(row)
    lines = [_TITLES, *(_line(name, mine, board) for name, mine in [*groups.items(), ("all", list(rows))])]
    return markdown(lines) + "\n"


def card_page(results: Path, board: Path | None) -> str:
    """Return the card of the `results.json` of `equifactor evaluate`, below a line with its command and machine."""
    found = json.loads(results.read_text(encoding="utf-8"))
    known = read_board(board.read_text(encoding="utf-8").splitlines()) if board else {}
    rows = found["rows"]
    limits = sorted({f"{row['time_limit']:g} s" for row in rows if row["time_limit"]})
    about = f"`{found['command']}`, code {found['code']}, {found['processor']}, {', '.join(limits)}."
    return f"{about}\n\n{score_card(rows, known)}"


def _error(row: Row) -> Any:
    """Return the error of a row; a short row has only the UAI error."""
    return row.get("error", row.get("map_error"))


def _line(name: str, rows: Sequence[Row], board: dict[str, Row]) -> list[Any]:
    pairs = [
        (score, board[row["instance"]]["best_score_20s"])
        for row in rows
        if row["instance"] in board and (score := board_score(row, board[row["instance"]])) is not None
    ]
    errors = [e for row in rows if isinstance(e := row.get("map_error"), float)]
    seconds = [r["seconds"] or 0.0 for r in rows]
    return [
        name, len(rows), f"{mean([r['score'] for r in rows]):.2f}", f"{mean(errors):.5f}",
        sum(bool(r.get("zero_probability")) for r in rows), sum(_error(r) == 0.0 for r in rows),
        sum(bool(r.get("proven")) for r in rows), f"{mean(seconds):.2f}", f"{max(seconds):.1f}", len(pairs),
        *(f"{mean([p[n] for p in pairs]):.2f}" if pairs else "" for n in range(2)),
    ]  # fmt: skip
