"""A folder of `equifactor evaluate` for the page: tables, score against time, and the runs of each model."""

from __future__ import annotations

import datetime
import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equifactor._version import __version__
from equifactor.base.errors import EquifactorError, FormatError, OptionError, brief
from equifactor.base.status import Task
from equifactor.evaluation.row_store import ANSWER, ROWS, Row, decoded, read_rows
from equifactor.evaluation.summary import table_cells, table_title

if TYPE_CHECKING:
    from equifactor.data import Instance
    from equifactor.page.model_picture import Answer

RESULTS = "results.json"


class ResultsFolder:
    """The rows of a folder, read again when its files change, because an evaluation may still be running."""

    def __init__(self, folder: Path, models: str | Path | None = None) -> None:
        """Read a folder of results.

        Args:
            folder: the folder that `evaluate` wrote.
            models: the folder of the models; by default the one that was evaluated, if it still exists.
        """
        self.folder, self._models = folder, models
        self._seen: tuple[Any, ...] = ()
        self._rows: list[Row] = []
        self._about: Row = {}
        self._load()
        self._instances: dict[str, Instance] | None = None

    def session(self) -> Answer:
        """Return what the page needs first."""
        return {
            "version": __version__, "mode": "results", "title": str(self.folder), "readonly": False, "solvers": [],
            "solver": "", "evidence": {}, "summary": f"{len(self._rows):,} runs",
        }  # fmt: skip

    def results(self) -> Answer:
        """Return all tables and curves."""
        self._load()
        by_solver: dict[tuple[str, str, Any], list[Row]] = {}
        for row in self._rows:
            by_solver.setdefault((row["task"], row["solver"], row.get("time_limit")), []).append(row)
        tables = []
        for (task, _, _), rows in by_solver.items():
            titles, *cells = table_cells(rows, Task(task))
            tables.append({"title": table_title(rows, Task(task)), "columns": titles, "rows": cells})
        return {
            "tables": tables, "curves": [_curve(rows) for rows in by_solver.values()], "models": self._by_model(),
            "updated": datetime.datetime.fromtimestamp(self._changed(), datetime.UTC).isoformat(timespec="seconds"),
            "score_label": _label(self._rows), "lower_is_better": False,
            "about": {k: v for k, v in self._about.items() if isinstance(v, (str, int, float))},
        }  # fmt: skip

    def instance(self, name: Any) -> Instance:
        """Return the files of a model that the page names; raises `OptionError` if they are unknown."""
        found = self._files().get(str(name))
        if found is None:
            raise OptionError(
                f"The file of model {brief(name)} is unknown. Name the folder of the models with --models FOLDER."
            )
        return found

    # ---- reading ----------------------------------------------------------------------------------------

    def _load(self) -> None:
        path = self.folder / RESULTS
        path = path if path.is_file() else self.folder / ROWS
        try:
            stat = path.stat()
            seen = path, stat.st_mtime_ns, stat.st_size
            if seen == self._seen:
                return
            if path.name == RESULTS:
                about = json.loads(path.read_text(encoding="utf-8"))
                rows = about.pop("rows")
            else:
                about, rows = {}, [row for _, row in read_rows(path)]
            rows = [decoded(row) for row in rows]
            for row in rows:
                row.pop(ANSWER, None)
                Task(row["task"]), row["solver"], row["family"], row["instance"], row["status"]
        except OSError as error:
            raise FormatError(f"{path}: {(error.strerror or str(error)).lower()}") from None
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            raise FormatError(
                f"{path}: expected results that equifactor evaluate wrote, found something else."
            ) from None
        self._seen, self._rows, self._about = seen, rows, about

    def _changed(self) -> float:
        return float(self._seen[1]) / 1e9

    def _by_model(self) -> list[Answer]:
        models: dict[str, list[Answer]] = {}
        files = self._files()
        for row in self._rows:
            models.setdefault(_name(row), []).append(
                {
                    "solver": row["solver"], "task": row["task"], "status": row["status"],
                    **{name: _finite(row.get(name)) for name in ("score", "seconds", "error", "time_limit")},
                }
            )  # fmt: skip
        return [
            {"name": name, "path": str(files[name].path) if name in files else None, "rows": rows}
            for name, rows in models.items()
        ]

    def _files(self) -> dict[str, Instance]:
        """Return the files of all models, by `collection/name`."""
        from equifactor.data import collection
        from equifactor.data.collections import FOLDER

        if self._instances is None:
            self._instances = {}
            places: list[str | Path | None] = (
                [self._models] if self._models else [*self._compared(), os.environ.get(FOLDER)]
            )
            for place in places:
                if place is None:
                    continue
                try:
                    found = collection(place)
                except (EquifactorError, OSError):
                    if self._models:
                        raise
                    continue
                self._instances = {i.key: i for i in found} | self._instances
        return self._instances

    def _compared(self) -> list[Path]:
        """Return the model folder in the command that wrote the results, relative to here or to the results."""
        try:
            words = shlex.split(str(self._about.get("command", "")))
        except ValueError:
            return []
        if "evaluate" not in words[:-1] or (named := words[words.index("evaluate") + 1]).startswith("-"):
            return []
        return [p / named for p in (Path(), *self.folder.absolute().parents) if (p / named).is_dir()][:1]


def _name(row: Row) -> str:
    return f"{row.get('collection', '')}/{row['instance']}"


def _curve(rows: Sequence[Row]) -> Answer:
    """Return the mean score over time: a step at the end of each run; runs that have not ended count as 0.

    If no run has a score, return the percentage of solved runs instead.
    """
    scored = _has_scores(rows)
    done = sorted((float(row.get("seconds") or 0.0), _points(row, scored)) for row in rows)
    seconds, score, total = [], [], 0.0
    for at, points in done:
        total += points
        seconds.append(at)
        score.append(round(total / len(rows), 4))
    limit = rows[0].get("time_limit")
    name = rows[0]["solver"] + (f", {limit:g} s" if isinstance(limit, (int, float)) else "")
    return {"solver": name, "task": rows[0]["task"], "seconds": seconds, "score": score}


def _has_scores(rows: Sequence[Row]) -> bool:
    return any(row.get("score") is not None for row in rows)


def _points(row: Row, scored: bool) -> float:
    if scored:
        return _finite(row.get("score")) or 0.0
    return 100.0 if row["status"] in ("exact", "optimal", "converged") else 0.0


def _label(rows: Sequence[Row]) -> str:
    return "mean score, 100 is right" if _has_scores(rows) else "solved, percent"


def _finite(value: Any) -> float | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf")
    return float(value) if number else None
