"""Progress bars on stderr, which appear only on a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equifactor.solver import Progress

_DELAY = 0.5  # seconds before a bar appears, so that short runs stay quiet
_EVERY = 0.1  # seconds between two drawings


@contextlib.contextmanager
def bar(progress: Progress | bool, title: str) -> Iterator[Progress | None]:
    """What a run reports to: the caller's own function, a bar on the terminal, or nothing."""
    if callable(progress):
        yield progress
    elif not progress or not sys.stderr.isatty():
        yield None
    else:
        with _Bar(title) as report:
            yield report


class _Bar:
    """A rich progress bar that is imported and drawn only when the run is long enough to look at."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.start = self.drawn = time.perf_counter()
        self.display: contextlib.ExitStack | None = None

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.display is not None:
            self.display.close()

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        now = time.perf_counter()
        if now - self.start < _DELAY or now - self.drawn < _EVERY:
            return
        self.drawn = now
        if self.display is None:
            self._open()
        self.bar.update(self.task, completed=done, total=total, note=note)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
        )  # fmt: skip
        self.display = contextlib.ExitStack()
        self.bar = self.display.enter_context(
            Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        )
        self.task = self.bar.add_task(self.title, total=None, note="")
