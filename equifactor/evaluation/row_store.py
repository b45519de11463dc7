"""Finished runs on disk, one JSON line each. Rows are appended immediately: a kill loses only unfinished runs.

A line holds the result of a run, with marginals in the field `answer`, but no score. The score is computed from the
line and the right answer whenever it is shown, so it cannot be out of date. Marginals stay on disk until needed.

Infinite numbers are written as the texts "inf" and "-inf", since JSON has no infinite numbers.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from equifactor.base.errors import FormatError
from equifactor.base.file_lock import locked
from equifactor.base.files import reason, write_text
from equifactor.evaluation.contents import PREFIX

ROWS = "rows.jsonl"
ANSWER = "answer"  # The field of a row that stays on disk.
Row = dict[str, Any]

_BLOCK = 2**16  # Bytes that are searched for a line break at a time. Chosen by hand.
_BEGIN = b'{"key": '  # The beginning of every line.
log = logging.getLogger("equifactor")


class RowStore:
    """The rows of a folder by key, without marginals. `add` appends a row and returns when it is on disk.

    Several processes may use one folder. Each appends whole lines under a lock. Only the holder of the lock removes
    half a line, which a kill or a full disk left at the end of the file. `rows` has the rows that were there at the
    start, and those that this object added.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / ROWS
        self.rows: dict[str, Row] = {}
        self._offsets: dict[str, int] = {}  # the byte where the line of each key begins
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        except (OSError, ValueError) as error:  # a ValueError is about a zero byte in the name
            raise FormatError(f"{self.folder}: cannot write results to this folder: {reason(error)}.") from None
        try:
            for offset, row in read_rows(self.path):
                self._note(offset, row.pop("key"), row)
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> RowStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)

    def add(self, key: str, row: Row) -> None:
        """Save one finished run. Raises `FormatError` if the disk is full."""
        line = json.dumps({"key": key, **_coded(row)}, allow_nan=False).encode() + b"\n"
        try:
            with locked(self._file) as alone:
                rest = memoryview(line if self._is_at_line_start(alone) else b"\n" + line)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                offset = os.lseek(self._file, 0, os.SEEK_CUR) - len(line)
                os.fsync(self._file)
        except OSError as error:
            raise FormatError(f"{self.path}: cannot add a row: {reason(error)}. Finished rows are saved.") from None
        self._note(offset, key, row)

    def with_answer(self, key: str) -> Row:
        """Read the row of a key with its marginals from disk."""
        with self.path.open("rb") as handle:
            handle.seek(self._offsets[key])
            row = _parsed(handle.readline())
        if row is None or row["key"] != key:  # The file system has no locks, or the file was replaced.
            found = [(offset, row) for offset, row in read_rows(self.path) if row["key"] == key]
            if not found:
                raise FormatError(
                    f"{self.path}: the row of a finished run is missing: {key}. Another program has changed this file. "
                    "Repeat the command: it runs what is missing."
                )
            self._offsets[key], row = found[-1]
        del row["key"]
        return row

    def _is_at_line_start(self, alone: bool) -> bool:
        """Return whether the file ends in a whole line; if no other process can write now, remove half a line first."""
        size = end = os.lseek(self._file, 0, os.SEEK_END)
        while end > 0:  # Look for the last line break, from the end of the file.
            begin = max(0, end - _BLOCK)
            os.lseek(self._file, begin, os.SEEK_SET)
            found = os.read(self._file, end - begin).rfind(b"\n")
            end = begin + found + 1 if found >= 0 else begin
            if found >= 0 or not alone:
                break
        if alone and end < size:
            os.ftruncate(self._file, end)
        return alone or end == size

    def _note(self, offset: int, key: str, row: Row) -> None:
        self.rows.pop(key, None)  # so that the latest row comes last
        self.rows[key] = {name: value for name, value in row.items() if name != ANSWER}
        self._offsets[key] = offset

    def without_version(self) -> dict[str, str]:
        """Return the key of the latest row of each job, from any version of the code, by `Job.unversioned`."""
        return {key.rpartition(" | ")[0]: key for key in self.rows}

    def num_by_name(self) -> int:
        """Return the number of rows whose key begins with the name of a model, as versions before 0.2 wrote them."""
        return sum(not key.startswith(PREFIX) for key in self.rows)


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a file with the byte at which each begins. Skip lines that a killed process left incomplete.

    Raises `FormatError` if the first line is not a row: then the file is something else.
    """
    offset = num_damaged = 0
    with path.open("rb") as handle:
        for line in handle:
            row = _parsed(line)
            if row is not None:
                yield offset, row
            elif not offset and not _BEGIN.startswith(line.rstrip(b"\n")[: len(_BEGIN)]):
                raise FormatError(f"{path}:1: expected a row of results. Move this file away to start again.")
            elif line.endswith(b"\n"):  # otherwise another process may be writing this line now
                num_damaged += line != b"\n"
            offset += len(line)
    if num_damaged:
        log.info("%s: %d incomplete lines of runs that were killed are ignored", path, num_damaged)


def _parsed(line: bytes) -> Row | None:
    """Return the row of a complete line with its key, or None."""
    try:
        row = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return decoded(row) if isinstance(row, dict) and isinstance(row.get("key"), str) else None


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
