"""The score card of MAP over all collections, beside the board of the UAI-2022 competition.

    equifactor evaluate MODELS --collection Grids,GridsLarge,Segment,ObjDetect,DBN,Promedas,Protein --task MAP \
        --solver auto --time-limit 20 -o results/card
    python -m experiments.card results/card/results.json uai2022_reference.csv > experiments/uai/card.md

The second file (columns task, problem, best_log10_value, trivial_solver_log10, best_score_20s) holds what the board
states of its problems. Those with the name of one of our models are scored by the board's own rule and trivial answer,
so that the two last columns can be compared; our own trivial answer is stronger (docs/evaluate.md).
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
_ROUNDING = 0.06  # the board states log10 values with one decimal


def read_board(lines: Iterable[str]) -> dict[str, Row]:
    """Best value, trivial value and best score at 20 s by problem; the first board that has them all counts."""
    board: dict[str, Row] = {}
    for row in csv.DictReader(lines):
        wanted = ("best_log10_value", "trivial_solver_log10", "best_score_20s")
        if row["task"] == "MPE" and all(row[name] for name in wanted):
            board.setdefault(row["problem"], {name: float(row[name]) for name in wanted})
    return board


def board_score(row: Row, known: Row) -> float | None:
    """100 (1 - error / trivial error) with the board's trivial answer; None where the board has another model."""
    best = row["reference"] / math.log(10)
    if abs(best - known["best_log10_value"]) > _ROUNDING:
        return None
    if row.get("log_score") in (None, "-inf"):
        return 0.0
    error = max(0.0, best - row["log_score"] / math.log(10))
    return max(0.0, 100.0 * (1.0 - error / max(1e-9, best - known["trivial_solver_log10"])))


def card(rows: Sequence[Row], board: dict[str, Row]) -> str:
    """Markdown, a line per collection and one for all."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["collection"]].append(row)
    heads = ["collection", "models", "score", "UAI error", "zero", "best known", "proven", "mean s", "max s"]
    heads += ["on the board", "its rule, ours", "its rule, best at 20 s"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, mine in [*groups.items(), ("all", list(rows))]:
        pairs = [
            (score, board[row["instance"]]["best_score_20s"])
            for row in mine
            if row["instance"] in board and (score := board_score(row, board[row["instance"]])) is not None
        ]
        errors = [e for row in mine if isinstance(e := row.get("map_error"), float)]
        cells: list[Any] = [
            name, len(mine), f"{_mean([r['score'] for r in mine]):.2f}", f"{_mean(errors):.5f}",
            sum(bool(r.get("zero_probability")) for r in mine), sum(r.get("error") == 0.0 for r in mine),
            sum(bool(r.get("proven")) for r in mine), f"{_mean([r['seconds'] or 0.0 for r in mine]):.2f}",
            f"{max(r['seconds'] or 0.0 for r in mine):.1f}", len(pairs),
            *(f"{_mean([p[n] for p in pairs]):.2f}" if pairs else "" for n in range(2)),
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def main() -> None:
    """Print the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="results.json of equifactor evaluate")
    parser.add_argument("board", type=Path, nargs="?", help="CSV with the values of the board")
    options = parser.parse_args()
    results = json.loads(options.results.read_text(encoding="utf-8"))
    board = read_board(options.board.read_text(encoding="utf-8").splitlines()) if options.board else {}
    rows = results["rows"]
    limits = {f"{row['time_limit']:g} s" for row in rows if row["time_limit"]}
    print(f"`{results['command']}`, code {results['code']}, {results['processor']}, {', '.join(sorted(limits))}.\n")
    sys.stdout.write(card(rows, board))


if __name__ == "__main__":
    main()
