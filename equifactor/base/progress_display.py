"""The look of a progress bar. Only this module imports the bars of rich, when the first bar is drawn."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text


def new_display(start: float, time_limit: float | None) -> Progress:
    """Return a display for one task with the field `note`, on stderr; it disappears when it is closed.

    Args:
        start: when the run started, by `time.perf_counter`.
        time_limit: seconds after which the run ends at the latest.
    """
    cut = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(bar_width=16), _Count(), TimeElapsedColumn(),
        _TimeLeft(start, time_limit), TextColumn("{task.fields[note]}", markup=False, table_column=cut),
    )  # fmt: skip
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False, expand=True)


class _Count(ProgressColumn):
    """The amount of work done: `3/10`, or `3` if the total is unknown."""

    def render(self, task: Task) -> Text:
        if task.total:
            return Text(f"{int(task.completed)}/{int(task.total)}")
        return Text(str(int(task.completed) or ""))


class _TimeLeft(ProgressColumn):
    """The remaining time at the speed so far, or until the time limit if that is sooner."""

    def __init__(self, start: float, time_limit: float | None) -> None:
        super().__init__()
        self.start, self.time_limit = start, time_limit

    def render(self, task: Task) -> Text:
        passed = time.perf_counter() - self.start
        ends = [] if self.time_limit is None else [self.time_limit - passed]
        if task.total and task.completed:
            ends.append(passed * (task.total - task.completed) / task.completed)
        return Text(_in_words(max(0.0, min(ends))) if ends else "")


def _in_words(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02} left" if whole < 3600 else f"{seconds / 3600:.1f} h left"
