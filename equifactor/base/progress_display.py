"""How a progress bar looks; the only module that imports rich's bars, when the first one is drawn."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text


def new_display(start: float, time_limit: float | None) -> Progress:
    """A display for one task with the field `note`, on stderr; it goes when it is closed.

    Args:
        start: when the run began, by `time.perf_counter`.
        time_limit: seconds after which the run ends in any case.
    """
    cut = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(bar_width=16), _Count(), TimeElapsedColumn(),
        _TimeLeft(start, time_limit), TextColumn("{task.fields[note]}", markup=False, table_column=cut),
    )  # fmt: skip
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False, expand=True)


class _Count(ProgressColumn):
    """How much is done: `3/10`, or `3` where nobody knows how much there is."""

    def render(self, task: Task) -> Text:
        if task.total:
            return Text(f"{int(task.completed)}/{int(task.total)}")
        return Text(str(int(task.completed) or ""))


class _TimeLeft(ProgressColumn):
    """The time to the end by the speed so far, or to the time limit where that is sooner."""

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
