"""Progress bars on stderr with the remaining time. They appear only on a terminal, and only for long runs."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from equifactor.base.clock import Clock

if TYPE_CHECKING:
    from equifactor.base.run_context import Progress

_DELAY = 0.5  # seconds before a bar appears, so that short runs show none. Chosen by hand.
_EVERY = 0.1  # Seconds between two updates of a bar: people notice 0.1 s.


@contextlib.contextmanager
def bar(progress: Progress | bool, title: str, time_limit: float | None = None) -> Iterator[Progress | None]:
    """Yield what a run reports its progress to: the caller's own function, a bar on the terminal, or None.

    If the run never reports, the bar shows the elapsed time and the rest of `time_limit`. A bar inside another bar is
    not shown. An exception of the caller's own function ends the run and passes through unchanged. KeyboardInterrupt
    stops the run as Ctrl-C does.
    """
    if callable(progress):
        own = _CallerReport(progress)
        try:
            yield own
        except _CallerError as error:
            if error.source is not own:  # It is for a bar around this one.
                raise
            raise error.cause from None
    elif not progress or _Bar.shown is not None or sys.stderr is None or not sys.stderr.isatty():
        yield None
    else:
        with _Bar(title, time_limit) as report:
            yield report


class _CallerError(BaseException):
    """Carries an exception of the caller's own function past the solvers, which answer to some exceptions."""

    def __init__(self, source: _CallerReport, cause: BaseException) -> None:
        self.source, self.cause = source, cause


class _CallerReport:
    """Calls the caller's own function."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        try:
            self._progress(done, total, note)
        except _CallerError:
            raise
        except KeyboardInterrupt as error:
            if not Clock.interrupt_calls():
                raise _CallerError(self, error) from None
        except BaseException as error:
            raise _CallerError(self, error) from None


class _Bar:
    """A rich progress bar. Another thread imports rich and draws the bar if the run takes long enough."""

    shown: _Bar | None = None  # A terminal shows one bar at a time.

    def __init__(self, title: str, time_limit: float | None) -> None:
        self.title, self.time_limit = title, time_limit
        self.start = self.drawn = time.perf_counter()
        self.latest: tuple[int, int | None, str] = (0, None, "")
        self.lock = threading.Lock()
        self.display = contextlib.ExitStack()
        self.bar: Any = None
        self.timer = threading.Timer(_DELAY, self._open)
        self.timer.daemon = True

    def __enter__(self) -> _Bar:
        _Bar.shown = self
        self.timer.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.timer.cancel()
        with self.lock:  # The other thread may be about to open the display.
            _Bar.shown = None
            self.display.close()

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        self.latest = (done, total, note)
        now = time.perf_counter()
        if self.bar is not None and now - self.drawn >= _EVERY:
            self.drawn = now
            self._draw()

    def _draw(self) -> None:
        done, total, note = self.latest
        self.bar.update(self.task, completed=done, total=total, note=note)

    def _open(self) -> None:
        from equifactor.base.progress_display import new_display

        with self.lock:
            if _Bar.shown is self:
                display = new_display(self.start, self.time_limit)
                self.task = display.add_task(self.title, total=None, note="")
                self.bar = self.display.enter_context(display)
                self._draw()
