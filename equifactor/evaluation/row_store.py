"""Finished runs on disk, one JSON line each. Rows are appended immediately: a kill loses only unfinished runs.

A line holds the result of a run, with marginals in the field `answer`, but no score. The score is computed from the
line and the right answer whenever it is shown, so it cannot be out of date. Marginals stay on disk until needed.

Infinite numbers are written as the texts "inf" and "-inf", since JSON has no infinite numbers.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from equifactor.base.errors import FormatError
from equifactor.base.files import write_text
from equifactor.evaluation.contents import PREFIX

ROWS = "rows.jsonl"
ANSWER = "answer"  # The field of a row that stays on disk.
Row = dict[str, Any]


class RowStore:
    """The rows of a folder by key, without marginals. `add` appends a row and returns when it is on disk."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / ROWS
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._offsets: dict[str, int] = {}  # the byte where the line of each key begins
            self.rows = self._load()
            self._file = self.path.open("ab")
        except OSError as error:
            raise FormatError(
                f"{self.folder}: cannot write results to this folder: {error.strerror or error}."
            ) from None

    def __enter__(self) -> RowStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def add(self, key: str, row: Row) -> None:
        """Save one finished run."""
        self._offsets[key] = self._file.seek(0, os.SEEK_END)
        self._file.write(json.dumps({"key": key, **_coded(row)}, allow_nan=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows[key] = {name: value for name, value in row.items() if name != ANSWER}

    def with_answer(self, key: str) -> Row:
        """Read the row of a key with its marginals from disk."""
        with self.path.open("rb") as handle:
            handle.seek(self._offsets[key])
            row = decoded(json.loads(handle.readline()))
        del row["key"]
        return row

    def without_version(self) -> dict[str, str]:
        """Return the key of the latest row of each job, from any version of the code, by `Job.unversioned`."""
        return {key.rpartition(" | ")[0]: key for key in self.rows}

    def num_by_name(self) -> int:
        """Return the number of rows whose key begins with the name of a model, as versions before 0.2 wrote them."""
        return sum(not key.startswith(PREFIX) for key in self.rows)

    def _load(self) -> dict[str, Row]:
        """Read all rows. Remove an incomplete last line, which a kill may have left, from the file."""
        if not self.path.is_file():
            return {}
        rows: dict[str, Row] = {}
        good = 0
        with self.path.open("rb") as handle:
            for number, line in enumerate(handle, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    row = decoded(json.loads(line))
                    key = row.pop("key")
                    row.pop(ANSWER, None)
                except (ValueError, KeyError, AttributeError):
                    raise FormatError(
                        f"{self.path}:{number}: expected a row of results. Move this file away to start again."
                    ) from None
                rows.pop(key, None)  # so that the latest row comes last
                rows[key] = row
                self._offsets[key] = good
                good += len(line)
        if good < self.path.stat().st_size:
            os.truncate(self.path, good)
        return rows


def write_results(folder: Path, rows: Sequence[Row], about: Row) -> tuple[Path, Path]:
    """Write `results.json`, including `about`, and `results.csv`; return their paths."""
    as_json, as_csv = folder / "results.json", folder / "results.csv"
    report = {**about, "rows": [_coded(r) for r in rows]}
    write_text(as_json, json.dumps(report, indent=1, allow_nan=False) + "\n")
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(as_csv, text.getvalue())
    return as_json, as_csv


def _coded(row: Row) -> Row:
    return {k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


def decoded(row: Row) -> Row:
    """Return a row of a file with its infinite numbers."""
    return {k: float(v) if isinstance(v, str) and v in ("inf", "-inf", "nan") else v for k, v in row.items()}
