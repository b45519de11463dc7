"""Finished runs on disk, one JSON line each. They are appended as they come: a kill loses only what was running.

Infinite numbers are the texts "inf" and "-inf": JSON has no other way to say them.
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

from equifactor.errors import FormatError
from equifactor.io.files import write_text

ROWS = "rows.jsonl"
Row = dict[str, Any]


class RowStore:
    """The rows of a folder by key; `add` appends one and returns when it is on disk."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / ROWS
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.rows = self._load()
            self._file = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise FormatError(f"{self.folder}: cannot write results here: {error.strerror or error}") from None

    def __enter__(self) -> RowStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def add(self, key: str, row: Row) -> None:
        """Keep one finished run."""
        self.rows[key] = row
        self._file.write(json.dumps({"key": key, **_coded(row)}, allow_nan=False) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def without_version(self) -> dict[str, Row]:
        """The latest row of each job, whichever version of the code made it."""
        return {key.rpartition(" | ")[0]: row for key, row in self.rows.items()}

    def _load(self) -> dict[str, Row]:
        """Read all rows; a last line that a kill cut short is taken off the file."""
        if not self.path.is_file():
            return {}
        rows: dict[str, Row] = {}
        good = 0
        with self.path.open("rb") as handle:
            for number, line in enumerate(handle, 1):
                try:
                    row = _decoded(json.loads(line))
                    rows[row.pop("key")] = row
                except (ValueError, KeyError, AttributeError):
                    if line.endswith(b"\n"):
                        raise FormatError(f"{self.path}:{number}: expected a row of results; move it away") from None
                    break
                good += len(line)
        if good < self.path.stat().st_size:
            os.truncate(self.path, good)
        return rows


def write_results(folder: Path, rows: Sequence[Row], about: Row) -> tuple[Path, Path]:
    """Write `results.json`, with what produced the numbers, and `results.csv`; returns their paths."""
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


def _decoded(row: Row) -> Row:
    return {k: float(v) if isinstance(v, str) and v in ("inf", "-inf", "nan") else v for k, v in row.items()}
