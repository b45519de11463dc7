"""Finished runs of an experiment: one compressed archive, and a working folder for new runs.

The archive `runs.jsonl.xz` has one line per run, `{"key": .., "run": ..}`, in the order of the keys. A finished run is
written to the folder `runs/` at once, so that a kill loses only unfinished runs. `pack` moves the runs into the
archive.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equifactor.base.errors import FormatError
from equifactor.base.files import read_bytes, write_text

ARCHIVE = "runs.jsonl.xz"
WORKING = "runs"
Row = dict[str, Any]


def run_key(*parts: str) -> str:
    """Return the parts that are not empty as one key, which is also a valid file name."""
    return re.sub(r"[^A-Za-z0-9=.+-]+", "_", "-".join(filter(None, parts)))


class RunStore:
    """The runs of one folder by key. A run in the working folder replaces the archived run of the same key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.working = folder / WORKING
        self.archived = read_archive(folder / ARCHIVE)
        self.changed = any(self.working.glob("*.json"))

    def get(self, key: str) -> Row | None:
        """Return a finished run, or None."""
        path = self._path(key)
        return _read(path)["run"] if path.is_file() else self.archived.get(key)

    def add(self, key: str, row: Row) -> None:
        """Write a run to the working folder."""
        self.working.mkdir(parents=True, exist_ok=True)
        write_text(self._path(key), json.dumps({"key": key, "run": row}, indent=1) + "\n")
        self.changed = True

    def put(self, rows: Mapping[str, Row]) -> None:
        """Write runs directly into the archive, for example answers whose details stay in the working folder."""
        if any(self.archived.get(key) != row for key, row in rows.items()):
            self.archived = read_archive(self.folder / ARCHIVE) | dict(rows)
            write_archive(self.folder / ARCHIVE, self.archived)
            self.changed = True

    def pack(self) -> None:
        """Move the runs of the working folder into the archive."""
        paths = sorted(self.working.glob("*.json"))
        entries = [_read(path) for path in paths]
        self.put({entry["key"]: entry["run"] for entry in entries})
        for path in paths:
            path.unlink()
        if self.working.is_dir() and not any(self.working.iterdir()):
            self.working.rmdir()

    def _path(self, key: str) -> Path:
        return self.working / f"{key}.json"


def read_archive(path: Path) -> dict[str, Row]:
    """Read the runs of an archive by key; without the file there are no runs."""
    if not path.is_file():
        return {}
    try:
        entries = [json.loads(line) for line in read_bytes(path).splitlines()]
        return {entry["key"]: entry["run"] for entry in entries}
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: each line of an archive must be a JSON object with key and run: {error}") from None


def write_archive(path: Path, runs: Mapping[str, Row]) -> None:
    """Write all runs in the order of their keys, so that the same runs give the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, (json.dumps({"key": key, "run": runs[key]}) + "\n" for key in sorted(runs)))


def _read(path: Path) -> Row:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise FormatError(f"{path}: this is not a finished run: {error}. Delete the file to repeat the run.") from None


def compact(row: Row) -> Row:
    """Return a row in plain JSON, without fields that are null, false or empty text; the inverse is `expanded`."""
    return {k: plain(v) for k, v in row.items() if v is not None and v is not False and v != ""}


def expanded(row: Row) -> Row:
    """Return a compact row with its infinite numbers restored; omitted fields stay omitted."""
    return {k: float(v) if isinstance(v, str) and v in ("inf", "-inf") else v for k, v in row.items()}


def plain(value: Any) -> Any:
    """Replace infinite numbers by text and NaN by None, because JSON has neither."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value
