"""Tables of results: one table per solver, with a row per family of models and a row for all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from equifactor.base.status import Task
from equifactor.evaluation.row_store import Row
from equifactor.metrics import summarize
from equifactor.show.text_tables import fitted

_ROUNDING = 1e-6  # The relative difference of two sums that counts as equal.
Column = tuple[str, Callable[[Sequence[Row]], str]]


def tables(rows: Sequence[Row], task: Task, width: int | None = None) -> str:
    """Return the text of all tables, with solvers in the order of their first rows, fitted to `width` characters."""
    parts = []
    for solver in dict.fromkeys(row["solver"] for row in rows):
        mine = [row for row in rows if row["solver"] == solver]
        cells = table_cells(mine, task)
        # The columns family and statuses are aligned to the left.
        parts.append(f"{table_title(mine, task)}\n{fitted(cells, width, right=range(1, len(cells[0]) - 1), rule=True)}")
    return "\n\n".join(parts) + "\n"


def table_title(rows: Sequence[Row], task: Task) -> str:
    """Return the title of the table of one solver."""
    limit = rows[0]["time_limit"]
    return f"{task} by {rows[0]['solver']}" + ("" if limit is None else f", {limit:g} s")


def table_cells(rows: Sequence[Row], task: Task) -> list[list[str]]:
    """Return the table of one solver: the titles of its columns, a row per family and a row for all."""
    columns = _COLUMNS[task]
    families = list(dict.fromkeys(row["family"] for row in rows))
    groups = [(name, [row for row in rows if row["family"] == name]) for name in families]
    if len(groups) > 1:
        groups.append(("all", list(rows)))
    cells = [["family", *(name for name, _ in columns)]]
    cells += [[name, *(show(group) for _, show in columns)] for name, group in groups]
    return cells


def _mean(name: str, form: str = "{:.3g}") -> Callable[[Sequence[Row]], str]:
    """Return a function that shows the mean of the finite values and the number of infinite ones."""

    def show(rows: Sequence[Row]) -> str:
        values = [row[name] for row in rows if row.get(name) is not None]
        if not values:
            return "-"
        s = summarize(values)
        text = "-" if math.isnan(s.finite_mean) else form.format(s.finite_mean)
        return f"{text} +{s.num_infinite} inf" if s.num_infinite else text

    return show


def _max(name: str, form: str = "{:.3g}") -> Callable[[Sequence[Row]], str]:
    def show(rows: Sequence[Row]) -> str:
        values = [row[name] for row in rows if row.get(name) is not None]
        return form.format(max(values)) if values else "-"

    return show


def _count(name: str) -> Callable[[Sequence[Row]], str]:
    return lambda rows: str(sum(bool(row.get(name)) for row in rows))


def _optimal(rows: Sequence[Row]) -> str:
    """Return the number of assignments that are as good as the best known one."""
    return str(sum(row.get("error") == 0.0 for row in rows))


def _wrong_sums(rows: Sequence[Row]) -> str:
    """Return the number of answers whose own value is not the sum that was computed again."""
    own = [(row.get("claimed_log_score"), row.get("log_score"), row.get("log_score_upper")) for row in rows]
    known = [(c, low, low if high is None else high) for c, low, high in own if c is not None and low is not None]
    return str(
        sum(not low - _ROUNDING * (1 + abs(c)) <= c <= high + _ROUNDING * (1 + abs(c)) for c, low, high in known)
    )


def _statuses(rows: Sequence[Row]) -> str:
    return ", ".join(f"{count} {status}" for status, count in Counter(row["status"] for row in rows).most_common())


def _references(rows: Sequence[Row]) -> str:
    """Return the origins of the right answers; the rows have the reasons for missing ones."""
    labels = Counter((row.get("reference") or "none").partition(":")[0] for row in rows)
    return next(iter(labels)) if len(labels) == 1 else ", ".join(f"{n} {label}" for label, n in labels.most_common())


_FIRST: list[Column] = [("count", lambda rows: str(len(rows))), ("score", _mean("score", "{:.1f}"))]
_LAST: list[Column] = [
    ("mean s", _mean("seconds", "{:.2f}")),
    ("max s", _max("seconds", "{:.2f}")),
    ("overrun s", _max("overrun", "{:.1f}")),
    ("reference", _references),
    ("statuses", _statuses),
]
_COLUMNS: dict[Task, list[Column]] = {
    Task.MAR: [
        *_FIRST, ("mean KL", _mean("kl")), ("RMSE", _mean("rmse")), ("max error", _max("max_error")), *_LAST
    ],
    Task.PR: [*_FIRST, ("mean |ln Z err|", _mean("error")), ("max", _max("error")), *_LAST],
    Task.MAP: [
        *_FIRST, ("UAI error", _mean("map_error")), ("zero prob.", _count("zero_probability")),
        ("best known", _optimal), ("proven", _count("proven")), ("mean gap", _mean("gap")), *_LAST,
    ],
    Task.MMAP: [
        *_FIRST, ("zero prob.", _count("zero_probability")), ("best known", _optimal), ("proven", _count("proven")),
        ("mean gap", _mean("gap")), ("wrong sums", _wrong_sums), *_LAST,
    ],
}  # fmt: skip
