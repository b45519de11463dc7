"""What comes back from `compare`: a row per solver, as text, HTML, data frame and picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import OptionError, SolveError, brief
from equifactor.base.options import choices
from equifactor.base.status import Task
from equifactor.metrics import max_error, mean_error
from equifactor.questions.result import Result
from equifactor.show.html_tables import short
from equifactor.show.text_tables import aligned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from equifactor.graph import FactorGraph
    from equifactor.questions.frames import DataFrame

_FAILED = "failed"  # the status of a solver that gave no result
# The columns of a table: title, and how many digits a number has. What is compared with the reference comes second.
_COLUMNS: dict[Task, dict[str, str]] = {
    Task.MAR: {"max difference": ".2g", "mean difference": ".2g", "ln Z": ".6g"},
    Task.PR: {"ln Z": ".8g", "difference": ".2g", "lower bound": ".6g", "upper bound": ".6g"},
    Task.MAP: {"log score": ".8g", "difference": ".3g", "other states": "d", "upper bound": ".8g"},
}


@dataclass(frozen=True, eq=False)
class ComparedSolver:
    """One solver of a comparison: its title, its result if it has one, and a message."""

    title: str
    result: Result | None
    message: str

    @property
    def status(self) -> str:
        """How the run ended; `failed` without a result."""
        return _FAILED if self.result is None else str(self.result.status)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The answers of several solvers to one question; `comparison["bp"]` is the result of one of them.

    Marginals are compared entry by entry over the variables that are not observed: `max difference` is the largest
    absolute difference to the reference, `mean difference` the mean one. `difference` is ln Z (PR) or the log score
    (MAP) minus that of the reference. `other states` counts the variables whose state differs from the reference. A
    solver that failed has a row with the status `failed`, and its message is below the table.
    """

    graph: FactorGraph  # with the evidence
    task: Task
    rows: tuple[ComparedSolver, ...]  # in the order in which they were given
    reference: Result | None = field(repr=False)  # None if the reference has no answer
    reference_title: str

    def __getitem__(self, title: str) -> Result:
        for row in self.rows:
            if isinstance(title, str) and row.title == title:
                if row.result is None:
                    raise SolveError(f"{title} has no result: {row.message}")
                return row.result
        raise OptionError(f"This comparison has no solver {brief(title)}; {choices(title, list(self))}")

    def __iter__(self) -> Iterator[str]:
        return (row.title for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def results(self) -> dict[str, Result]:
        """The results by title, without the solvers that failed."""
        return {row.title: row.result for row in self.rows if row.result is not None}

    @checks_types("title")
    def measures(self, title: str) -> dict[str, float | None]:
        """Return the numbers of one row by the titles of their columns; None for a missing number."""
        result = self.results.get(title)
        found = {} if result is None else _measures(result, self.reference)
        return {name: found.get(name) for name in _COLUMNS[self.task]}

    @property
    def notes(self) -> list[str]:
        """A message for each solver that failed or did not solve the task."""
        return [
            f"{row.title}: {row.message}" for row in self.rows if row.result is None or not row.result.status.solved
        ]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as plain values for JSON, with None for missing and infinite numbers."""
        return [{name: None if _is_infinite(x) else x for name, x in row.items()} for row in self._table()]

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row per solver: the columns of the table, and `message`."""
        from equifactor.questions.frames import data_frame

        rows = self._table()
        return data_frame({name: [row[name] for row in rows] for name in rows[0]})

    def _table(self) -> list[dict[str, Any]]:
        return [
            {
                "solver": row.title, "status": row.status, **self.measures(row.title),
                "seconds": None if row.result is None else row.result.seconds, "message": row.message,
            }
            for row in self.rows
        ]  # fmt: skip

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw marginals against those of the reference, ln Z with its bounds, or scores with their bounds.

        `ax` are the axes to draw into; by default a new figure is made. Needs matplotlib.
        """
        from equifactor.show.comparison_picture import draw_comparison

        return draw_comparison(self, ax)

    def cells(self) -> list[list[str]]:
        """Return the cells of the table as text; the first row holds the titles."""
        form = _COLUMNS[self.task]
        rows = [["solver", "status", *form, "time"]]
        for row in self.rows:
            measured = self.measures(row.title)
            numbers = [_number(measured[name], form[name]) for name in form]
            rows.append([row.title, row.status, *numbers, "-" if row.result is None else _time(row.result.seconds)])
        return rows

    def heading(self) -> str:
        """Return what is compared, in words."""
        against = "" if list(self) == [self.reference_title] else f", compared with {self.reference_title}"
        return f"{self.task} of {short(self.graph.name or f'{self.graph.num_vars:,} variables')}{against}"

    def __repr__(self) -> str:
        cells = [[short(text) for text in row] for row in self.cells()]
        table = aligned(cells, right=range(2, len(cells[0])), rule=True)
        return "\n".join([self.heading(), table, *self.notes])

    def _repr_html_(self) -> str:
        from html import escape

        from equifactor.show.html_tables import rows_table

        titles, *rows = self.cells()
        table = rows_table(self.heading(), titles, rows, count=len(rows), right=range(2, len(titles)))
        return table + "".join(f"<div>{escape(note)}</div>" for note in self.notes)


def _measures(result: Result, reference: Result | None) -> dict[str, float]:
    """Return all numbers of one result, by title."""
    found = {
        "ln Z": getattr(result, "log_z", None),
        "log score": getattr(result, "log_score", None),
        "lower bound": result.lower_bound,
        "upper bound": result.upper_bound,
    }
    if reference is not None:
        free = result.graph.free_vars
        if hasattr(result, "marginals") and hasattr(reference, "marginals"):
            found["max difference"] = max_error(reference.marginals, result.marginals, variables=free)
            found["mean difference"] = mean_error(reference.marginals, result.marginals, variables=free)
        if hasattr(result, "assignment") and hasattr(reference, "assignment"):
            found["other states"] = int(np.count_nonzero(np.not_equal(result.assignment, reference.assignment)[free]))
        number = {Task.PR: "log_z", Task.MAP: "log_score"}.get(result.task, "")
        mine, best = (getattr(r, number, None) for r in (result, reference))
        if mine is not None and best is not None:
            found["difference"] = 0.0 if mine == best else mine - best  # both may be -inf
    return {name: value for name, value in found.items() if value is not None}


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _number(value: float | None, form: str) -> str:
    if value is None:
        return "-"
    return format(value, form) if math.isfinite(value) else str(value)


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
