"""The deadline and Ctrl-C as one thing that a running method looks at."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from equifactor.base.status import Status

if TYPE_CHECKING:
    from types import FrameType


_REPEAT = 0.2  # seconds between two rings of an alarm


class Pause:
    """Time that no clock counts: while kernels are compiled, which happens once on a machine and is announced."""

    seconds = 0.0
    _depth = 0
    _since = 0.0

    @classmethod
    def begin(cls) -> None:
        """Start a pause: a kernel begins to compile. Another one may begin before it ends."""
        if cls._depth == 0:
            cls._since = time.perf_counter()
        cls._depth += 1

    @classmethod
    def running(cls) -> bool:
        """Whether a kernel is being compiled now."""
        return cls._depth > 0

    @classmethod
    def end(cls) -> None:
        """End the pause that the matching `begin` started."""
        cls._depth -= 1
        if cls._depth == 0:
            cls.seconds += time.perf_counter() - cls._since


class TimeIsUp(BaseException):
    """Raised at the deadline in work that has no answer so far; like KeyboardInterrupt it is not an `Exception`."""


class Clock:
    """Counts time from its creation; it is `stopped` once the time limit has passed or the user pressed Ctrl-C.

    It stands still while kernels compile: a first run would otherwise spend its time limit on that alone.
    """

    interrupts: ClassVar[int] = 0  # the number of Ctrl-C that any clock has caught, by which a loop over runs can stop

    def __init__(self, time_limit: float | None = None, whole: Clock | None = None) -> None:
        self.whole = whole  # the clock of which this one times a part
        self.start = time.perf_counter()
        self._paused_before = Pause.seconds
        self.time_limit = time_limit
        self.interrupted = False

    @property
    def seconds(self) -> float:
        """The time since creation, without pauses."""
        return time.perf_counter() - self.start - (Pause.seconds - self._paused_before)

    @property
    def left(self) -> float:
        """The seconds until the deadline: infinite without one, 0 after an interrupt."""
        if self.interrupted:
            return 0.0
        left = float("inf") if self.time_limit is None else max(0.0, self.time_limit - self.seconds)
        return left if self.whole is None else min(left, self.whole.left)

    @property
    def stopped(self) -> bool:
        """Whether to stop now and give the best answer so far."""
        return self.left <= 0.0

    @property
    def status(self) -> Status | None:
        """Why it stopped, or None while it has not."""
        if self.interrupted or (self.whole is not None and self.whole.interrupted):
            return Status.INTERRUPTED
        return Status.TIME_LIMIT if self.stopped else None

    def part(self, share: float) -> Clock:
        """A clock for a part of the work: it stops when this share of the time left has passed, or with this one."""
        return Clock(None if self.time_limit is None else share * self.left, whole=self)

    @contextlib.contextmanager
    def catch_interrupt(self) -> Iterator[None]:
        """Turn the first Ctrl-C into a polite stop; a second one raises KeyboardInterrupt as usual.

        A flag rather than an exception: a kernel that works in place is never cut in the middle. Outside the
        main thread, or where the program has its own handler, nothing is changed.
        """
        if (
            threading.current_thread() is not threading.main_thread()
            or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        ):
            yield
            return

        def stop(signum: int, frame: FrameType | None) -> None:
            self.interrupted = True
            Clock.interrupts += 1
            signal.signal(signal.SIGINT, signal.default_int_handler)

        signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextlib.contextmanager
    def alarm(self) -> Iterator[None]:
        """Raise `TimeIsUp` at the deadline, in the middle of whatever runs, as Ctrl-C raises KeyboardInterrupt.

        For work that is done or not done, such as writing a file. Compiled code is not cut: the exception waits for
        its end. Only in the main thread of a program, and not where the system has no such timer.
        """
        if self.time_limit is None or not hasattr(signal, "setitimer"):
            yield
            return

        def ring(signum: int, frame: FrameType | None) -> None:
            if self.stopped and not Pause.running():
                raise TimeIsUp

        def disarm() -> None:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)

        before = signal.signal(signal.SIGALRM, ring)
        # It rings again and again: kernels may be compiling at the deadline, and an exception that is raised inside of
        # a callback of another library can get lost there.
        signal.setitimer(signal.ITIMER_REAL, max(self.left, _REPEAT), _REPEAT)
        try:
            yield
        finally:
            try:
                disarm()
            finally:
                disarm()  # where the last ring cut off the first attempt
