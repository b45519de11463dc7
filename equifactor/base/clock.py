"""The clock of a call: its deadline and Ctrl-C as one thing that a running method looks at."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from equifactor.base.status import Status

if TYPE_CHECKING:
    from types import FrameType


_REPEAT = 0.2  # Seconds between two rings of an alarm. Chosen by hand.


class Pause:
    """The time that no clock counts: while kernels compile, which happens once on a machine and is announced."""

    seconds = 0.0
    _depth = 0
    _since = 0.0

    @classmethod
    def begin(cls) -> None:
        """Start a pause because a kernel begins to compile. Pauses may be nested."""
        if cls._depth == 0:
            cls._since = Clock.now()
        cls._depth += 1

    @classmethod
    def running(cls) -> bool:
        """Return whether a kernel is being compiled now."""
        return cls._depth > 0

    @classmethod
    def end(cls) -> None:
        """End the pause that the matching `begin` started."""
        cls._depth -= 1
        if cls._depth == 0:
            cls.seconds += Clock.now() - cls._since


class TimeIsUp(BaseException):
    """Raised at the deadline in work that has no answer so far. Like KeyboardInterrupt, it is not an `Exception`."""


class Clock:
    """A clock that starts when it is created and stops at its time limit or when the user presses Ctrl-C.

    It stands still while kernels compile: otherwise a first run would spend its whole time limit on that.

    Args:
        time_limit: seconds until the clock stops; None for no limit.
        whole: the clock of which this one times a part.
    """

    now: ClassVar[Callable[[], float]] = staticmethod(time.perf_counter)  # Seconds; a test can drive it.
    interrupts: ClassVar[int] = 0  # How often any clock has caught Ctrl-C, so that a loop over runs can stop.

    def __init__(self, time_limit: float | None = None, whole: Clock | None = None) -> None:
        self.whole = whole
        self.start = Clock.now()
        self._paused_before = Pause.seconds
        self.time_limit = time_limit
        self.interrupted = False

    @property
    def seconds(self) -> float:
        """The seconds since creation, without pauses."""
        return Clock.now() - self.start - self.paused

    @property
    def paused(self) -> float:
        """The seconds since creation that this clock did not count, because kernels were compiled."""
        return Pause.seconds - self._paused_before

    @property
    def left(self) -> float:
        """The seconds until the deadline: infinite without a deadline, 0 after an interrupt."""
        if self.interrupted:
            return 0.0
        left = float("inf") if self.time_limit is None else max(0.0, self.time_limit - self.seconds)
        return left if self.whole is None else min(left, self.whole.left)

    @property
    def stopped(self) -> bool:
        """Whether to stop now and return the best answer so far."""
        return self.left <= 0.0

    @property
    def status(self) -> Status | None:
        """Why the clock stopped; None while it runs."""
        if self.interrupted or (self.whole is not None and self.whole.interrupted):
            return Status.INTERRUPTED
        return Status.TIME_LIMIT if self.stopped else None

    def part(self, share: float) -> Clock:
        """Return a clock for a part of the work. It stops after this share of the time left, or with this clock."""
        return Clock(None if self.time_limit is None else share * self.left, whole=self)

    @contextlib.contextmanager
    def catch_interrupt(self) -> Iterator[None]:
        """Stop the clock at the first Ctrl-C; a second Ctrl-C raises KeyboardInterrupt as usual.

        Ctrl-C sets a flag and does not raise, so that a kernel that works in place is never cut in the middle.
        Outside the main thread, or if the program has its own handler, nothing is changed.
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
        """Raise `TimeIsUp` at the deadline, in the middle of what runs, as Ctrl-C raises KeyboardInterrupt.

        This is for work that is either complete or useless, such as writing a file. Compiled code is not cut: the
        exception waits until it returns. It works only in the main thread, and only on systems with such a timer.
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
        # The alarm rings repeatedly: kernels may be compiling at the deadline, and an exception that is raised inside
        # a callback of another library can get lost there.
        signal.setitimer(signal.ITIMER_REAL, max(self.left, _REPEAT), _REPEAT)
        try:
            yield
        finally:
            try:
                disarm()
            finally:
                disarm()  # in case the last ring cut off the first attempt
