"""Logs of `equifactor train` for the page: one JSON line per epoch, read repeatedly during a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equifactor._version import __version__
from equifactor.base.errors import OptionError, brief
from equifactor.learning.training.training_log import TrainingLog

if TYPE_CHECKING:
    from equifactor.page.model_picture import Answer


class TrainingLogs:
    """One log, or all logs of a folder, where more may appear."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for log in self._logs():
            TrainingLog.read(log)  # A wrong file raises before the page opens.

    def session(self) -> Answer:
        """Return what the page needs first."""
        return {
            "version": __version__, "mode": "training", "title": str(self.path), "readonly": False, "solvers": [],
            "solver": "", "evidence": {}, "summary": "",
        }  # fmt: skip

    def training(self, since: Any = 0) -> Answer:
        """Return all runs, each with its rows from number `since` on; a restarted run has all its rows."""
        try:
            first = int(since)
        except (TypeError, ValueError):
            first = -1
        if first < 0:
            raise OptionError(f"`since` must be a whole number of at least 0, found {brief(since)}.")
        return {"runs": [_run(log, first) for log in self._logs()]}

    def _logs(self) -> list[Path]:
        return logs_in(self.path) if self.path.is_dir() else [self.path]


def logs_in(folder: Path) -> list[Path]:
    """Return the logs in a folder and in its subfolders, sorted by name."""
    found = sorted((*folder.glob("*.jsonl"), *folder.glob("*/*.jsonl")))
    return [path for path in found if _is_log(path)]


def _is_log(path: Path) -> bool:
    """Return whether the first line of a file describes an epoch."""
    try:
        with path.open(encoding="utf-8") as file:
            return "epoch" in json.loads(file.readline(1 << 16))
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def _run(log: Path, since: int) -> Answer:
    lines = TrainingLog.read(log).records
    start = since if since <= len(lines) else 0
    columns = list(dict.fromkeys(name for line in lines for name in line))
    return {
        "name": log.stem, "path": str(log), "columns": columns, "start": start, "total": len(lines),
        "rows": [[line.get(name) for name in columns] for line in lines[start:]], "done": _is_done(log),
        "best": lines[-1].get("best") if lines else None,
    }  # fmt: skip


def _is_done(log: Path) -> bool:
    """Return whether the model file, which is written last, is at least as new as the log."""
    model = log.with_suffix(".safetensors")
    try:
        return model.stat().st_mtime_ns >= log.stat().st_mtime_ns
    except OSError:
        return False
