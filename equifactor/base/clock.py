"""The clock of a call, which a running method asks whether to stop: at the deadline, or after Ctrl-C."""

from __future__ import annotations

# `signal` wraps this module. Its functions look for members of enums, which takes ten times as long.
import _signal  # type: ignore[import-not-found]
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from equifactor.base.argument_types import checks_types, is_real
from equifactor.base.errors import OptionError, SolveError, brief
from equifactor.base.status import Status

if TYPE_CHECKING:
    from types import FrameType


_LONGEST = 1e9  # Seconds to the first ring at most, 32 years: timers of the system do not take infinity.
_REPEAT = 0.2  # Seconds between two rings of an alarm: an exception that got lost delays the end by this much.
_CTRL_C = int(signal.SIGINT)
_LEAST_CPU = 0.01  # CPU seconds from which `Clock.crowding` is measured. Chosen by hand.


class Compiling:
    """The time that this process has spent compiling kernels, or waiting for another process that compiles them."""

    seconds = 0.0
    cpu = 0.0  # Seconds of the processor.
    _depth = 0
    _since = 0.0
    _cpu_since = 0.0

    @classmethod
    def begin(cls) -> None:
        """Note that a kernel begins to compile. Kernels compile the kernels that they call, so calls may be nested."""
        if cls._depth == 0:
            cls._since, cls._cpu_since = Clock.now(), time.process_time()
        cls._depth += 1

    @classmethod
    def running(cls) -> bool:
        """Return whether a kernel is being compiled now."""
        return cls._depth > 0

    @classmethod
    def end(cls) -> None:
        """Note that the kernel of the matching `begin` is compiled."""
        cls._depth -= 1
        if cls._depth == 0:
            cls.seconds += Clock.now() - cls._since
            cls.cpu += time.process_time() - cls._cpu_since


class TimeIsUp(BaseException):
    """Raised at the deadline in work that has no answer so far. Like KeyboardInterrupt, it is not an `Exception`."""


def _rounded(seconds: float) -> str:
    """Return one digit of a number of seconds that may have passed, without an exponent up to a day: 14.2 gives 10."""
    return f"{float(f'{max(0.0, seconds):.1g}'):g}"


class NotCompiledError(TimeIsUp):
    """Raised in place of compiling a kernel that would not be ready before the deadline.

    Args:
        kernel: the name of the kernel.
        seconds: how long it would take to compile.
        left: seconds until the deadline.
    """

    def __init__(self, kernel: str, seconds: float, left: float) -> None:
        super().__init__(
            f"A compiled kernel is missing ({kernel}), and compiling it takes about {_rounded(seconds)} s, but only "
            f"{_rounded(left)} s are left. `equifactor doctor --warm` compiles all kernels once."
        )


class NotLoadedError(NotCompiledError):
    """Raised in place of loading the compiler, without which no kernel runs, if that would miss the deadline.

    Args:
        seconds: how long loading would take.
        left: seconds until the deadline.
    """

    def __init__(self, seconds: float, left: float) -> None:
        TimeIsUp.__init__(
            self,
            f"Loading compiled kernels takes about {_rounded(seconds)} s on this busy machine, but only "
            f"{_rounded(left)} s are left. Raise the time limit.",
        )


class Clock:
    """A clock that starts when it is created and stops at its time limit or when the user presses Ctrl-C.

    A time limit holds for everything, compiling included. Without a limit for the whole, clocks of parts of the work
    stand still while kernels compile, so that a first run does the same work as the next one.

    Args:
        time_limit: seconds until the clock stops; None for no limit.
        whole: the clock of which this one times a part.
    """

    now: ClassVar[Callable[[], float]] = staticmethod(time.perf_counter)  # Seconds; a test can drive it.
    cpu_now: ClassVar[Callable[[], float]] = staticmethod(time.thread_time)  # CPU seconds of this thread.
    interrupts: ClassVar[int] = 0  # How often any clock has caught Ctrl-C, so that a loop over runs can stop.
    ignores_compiling: ClassVar[bool] = False  # Whether no limit counts compiling: for tests, and to warm up.
    _governing: ClassVar[list[tuple[int, Clock]]] = []  # The clocks of all calls in progress, with their threads.

    def __init__(self, time_limit: float | None = None, whole: Clock | None = None) -> None:
        if time_limit is not None and not is_real(time_limit):
            raise OptionError(
                f"The time limit of a Clock must be a number of seconds or None, found {brief(time_limit)}."
            )
        self.whole = whole
        self.start = Clock.now()
        self._cpu_start = Clock.cpu_now()
        self._compiled_before = Compiling.seconds
        self.time_limit = time_limit
        self.interrupted = False
        self._has_deadline: bool = time_limit is not None if whole is None else whole._has_deadline

    @property
    def seconds(self) -> float:
        """The seconds since creation. They include compiling if there is a deadline for the whole work."""
        return Clock.now() - self.start - (0.0 if self.counts_compiling else self.compiling)

    @property
    def counts_compiling(self) -> bool:
        """Whether compiling counts against the limit: there is a deadline for the whole work."""
        return self._has_deadline and not Clock.ignores_compiling

    @property
    def compiling(self) -> float:
        """The seconds since creation in which kernels were compiled."""
        return Compiling.seconds - self._compiled_before

    @property
    def working(self) -> float:
        """The seconds since creation without those of compiling: how long the work itself took."""
        return Clock.now() - self.start - (Compiling.seconds - self._compiled_before)

    @property
    def left(self) -> float:
        """The seconds until the deadline: infinite without a deadline, 0 after an interrupt."""
        if self.interrupted:
            return 0.0
        left = float("inf") if self.time_limit is None else max(0.0, self.time_limit - self.seconds)
        return left if self.whole is None else min(left, self.whole.left)

    @property
    def root(self) -> Clock:
        """The clock of the whole call."""
        return self if self.whole is None else self.whole.root

    @property
    def crowding(self) -> float:
        """Seconds per CPU second of this thread since creation: above 1 if other work keeps the machine busy."""
        return max(1.0, (Clock.now() - self.start) / max(Clock.cpu_now() - self._cpu_start, _LEAST_CPU))

    @property
    def late(self) -> float:
        """The seconds since the deadline of the whole call; 0 before it and without a deadline."""
        if self.whole is not None:
            return self.whole.late
        return 0.0 if self.time_limit is None else max(0.0, self.seconds - self.time_limit)

    @property
    def stopped(self) -> bool:
        """Whether to stop now and return the best answer so far."""
        return self.left <= 0.0

    @property
    def status(self) -> Status | None:
        """Why the clock stopped; None while it runs."""
        if self.interrupted or (self.whole is not None and self.whole.status is Status.INTERRUPTED):
            return Status.INTERRUPTED
        return Status.TIME_LIMIT if self.stopped else None

    @checks_types("share")
    def part(self, share: float) -> Clock:
        """Return a clock for a part of the work. It stops after this share of the time left, or with this clock."""
        return Clock(None if self.time_limit is None else share * self.left, whole=self)

    @checks_types("seconds")
    def within(self, seconds: float) -> Clock:
        """Return a clock for a part of the work. It stops after this many seconds, or with this clock."""
        return Clock(seconds, whole=self)

    def spend(self, work: float) -> None:
        """Report work of this many reference seconds (see the module `budget`). Only a `WorkClock` counts it."""

    @contextlib.contextmanager
    def govern(self) -> Iterator[None]:
        """Govern the work inside: it compiles no kernel that would miss the deadline, and Ctrl-C stops the clock.

        The first Ctrl-C sets a flag and does not raise, so that a kernel that works in place is never cut in the
        middle. A second one raises KeyboardInterrupt as usual. Outside the main thread, or if the program has its own
        handler, Ctrl-C is left as it is.

        Raises:
            SolveError: in place of a `NotCompiledError` that nobody caught, if this is the clock of the whole call.
            KeyboardInterrupt: the same after Ctrl-C, which leaves no time to compile.
        """
        here = threading.get_ident()
        entry = here, self
        Clock._governing.append(entry)
        catches = self._catch_interrupt()
        try:
            yield
        except NotCompiledError as error:
            if any(thread == here and clock is not self for thread, clock in Clock._governing):
                raise
            if self.interrupted:
                raise KeyboardInterrupt from None
            raise SolveError(str(error)) from None
        finally:
            if catches:
                _signal.signal(_CTRL_C, signal.default_int_handler)
            Clock._governing.remove(entry)

    def _catch_interrupt(self) -> bool:
        """Let the first Ctrl-C stop the clock; return whether that was possible."""
        if (
            threading.current_thread() is not threading.main_thread()
            or _signal.getsignal(_CTRL_C) is not signal.default_int_handler
        ):
            return False

        def stop(signum: int, frame: FrameType | None) -> None:
            self.interrupted = True
            Clock.interrupts += 1
            signal.signal(signal.SIGINT, signal.default_int_handler)

        _signal.signal(_CTRL_C, stop)
        return True

    @classmethod
    def interrupt_calls(cls) -> bool:
        """Stop the calls in progress in this thread as Ctrl-C does; return whether they were still running."""
        here = threading.get_ident()
        running = [clock for thread, clock in cls._governing if thread == here and not clock.interrupted]
        for clock in running:
            clock.interrupted = True
        cls.interrupts += bool(running)
        return bool(running)

    @classmethod
    @contextlib.contextmanager
    def compiling_is_free(cls) -> Iterator[None]:
        """Let no limit count compiling in the work inside."""
        before, cls.ignores_compiling = cls.ignores_compiling, True
        try:
            yield
        finally:
            cls.ignores_compiling = before

    @classmethod
    def left_to_compile(cls) -> float:
        """Return what `left_of_call` does; without an end if no limit counts compiling."""
        return float("inf") if cls.ignores_compiling else cls.left_of_call()

    @classmethod
    def left_of_call(cls) -> float:
        """Return the seconds until the first deadline of the calls in progress: of this thread, or if none, of all."""
        here = threading.get_ident()
        own = [clock.left for thread, clock in cls._governing if thread == here]
        return min(own or [clock.left for _, clock in cls._governing], default=float("inf"))

    @classmethod
    def crowding_of_call(cls) -> float:
        """Return the crowding since the start of the call in progress in this thread; 1 outside of a call."""
        here = threading.get_ident()
        return next((clock.crowding for thread, clock in cls._governing if thread == here), 1.0)

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
            if self.stopped and not Compiling.running():
                raise TimeIsUp

        def disarm() -> None:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)

        before = signal.signal(signal.SIGALRM, ring)
        # The alarm rings repeatedly: kernels may be compiling at the deadline, and an exception that is raised inside
        # a callback of another library can get lost there.
        signal.setitimer(signal.ITIMER_REAL, min(max(self.left, _REPEAT), _LONGEST), _REPEAT)
        try:
            with self.govern():
                yield
        finally:
            try:
                disarm()
            finally:
                disarm()  # in case the last ring cut off the first attempt


class WorkClock(Clock):
    """A clock that does not read the time: it moves only when work is reported to it.

    A method that runs without a time limit can divide its work by this clock as it divides time by any other. The same
    call then does the same work on every machine, however busy. The clock of the whole call can still be interrupted.

    Args:
        seconds: reference seconds of work until the clock stops.
        whole: the clock of which this one times a part. Parts of a `WorkClock` share the count of work.
    """

    def __init__(self, seconds: float, whole: Clock) -> None:
        super().__init__(seconds, whole)
        self._count: list[float] = whole._count if isinstance(whole, WorkClock) else [0.0]
        self._begun = self._count[0]

    @property
    def seconds(self) -> float:
        """The reference seconds of work since creation."""
        return self._count[0] - self._begun

    @property
    def crowding(self) -> float:
        """1: other work on the machine does not matter."""
        return 1.0

    def part(self, share: float) -> Clock:
        """Return a clock for a part of the work. It stops after this share of the work left, or with this clock."""
        return WorkClock(share * self.left, self)

    def within(self, seconds: float) -> Clock:
        """Return a clock for a part of the work. It stops after this much work, or with this clock."""
        return WorkClock(seconds, self)

    def spend(self, work: float) -> None:
        """Report work of this many reference seconds."""
        self._count[0] += work
