"""How many threads a call uses: all cores by default, and one in worker processes.

A worker process of this package has its number in the environment variable EQUIFACTOR_THREADS, and work on a worker of
Dask runs within `one_thread`. Processes that `torchrun` starts on one machine share its cores.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import ContextVar
from numbers import Integral
from pathlib import Path

from equifactor.base.errors import OptionError, brief

THREADS = "EQUIFACTOR_THREADS"  # The environment variable with the number of threads of every call of a process.
_MOST = 1024  # A larger number is probably a typing error.
_alone: ContextVar[bool] = ContextVar("_alone", default=False)  # Whether this is work within `one_thread`.


def num_threads(threads: object = None) -> int:
    """Return a checked number of threads; for None what the environment states, otherwise the cores of this process."""
    if threads is None:
        text = os.environ.get(THREADS)
        if not text:
            return 1 if _alone.get() else max(1, num_cores() // _processes_here())
        threads = int(text) if text.isdecimal() else text
    number = int(threads) if isinstance(threads, Integral) and not isinstance(threads, bool) else 0
    if not 1 <= number <= _MOST:
        raise OptionError(f"threads must be a whole number from 1 to {_MOST}, found {brief(threads)}.")
    return number


def num_free_threads() -> int:
    """Return what `num_threads` does, less the threads that run elsewhere unless the environment states a number.

    Threads that wait for each other are slower than one if other programs use the cores.
    """
    most = num_threads()
    if os.environ.get(THREADS):
        return most
    others = 0
    # On Linux the fourth word begins with the number of running threads, of which this is one.
    with contextlib.suppress(OSError, ValueError, IndexError):
        others = int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0]) - 1
    return max(1, most - others)


def crew_size(threads: int | None, parts: int) -> int:
    """Return the number of threads for work in several parts: at most the stated number, or None for free cores."""
    if parts < 2:
        return 1
    return min(parts, num_free_threads() if threads is None else num_threads(threads))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Give the calls inside one thread, unless they or the environment state a number."""
    before = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(before)


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processes_here() -> int:
    text = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, int(text)) if text.isdecimal() else 1


class Crew:
    """Threads that divide ranges of work among themselves. The work must release the GIL.

    The calling thread works too, so that `Crew(1)` starts no thread. Use it as a context: leaving it ends the threads.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool = ThreadPoolExecutor(size - 1) if size > 1 else None

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def divide(
        self,
        count: int,
        piece: int,
        work: Callable[[int, int, int], object],
        *,
        report: Callable[[int], object] | None = None,
        stopped: Callable[[], bool] | None = None,
    ) -> bool:
        """Call `work(thread, start, stop)` for all ranges of at most `piece` of `count` things.

        Args:
            count: the number of things.
            piece: the length of a range.
            work: it handles one range in one of the threads.
            report: called in the calling thread with the number of things that have been begun.
            stopped: asked before each range; if it is true, no further range begins.

        Returns:
            Whether all of the work was done.
        """
        if 0 < count <= piece and report is None and stopped is None:  # in a few microseconds less
            work(0, 0, count)
            return True
        starts = itertools.count(0, piece)  # One step of it is not divided between threads.
        ended = threading.Event()

        def run(thread: int) -> None:
            while (start := next(starts)) < count and not ended.is_set():
                if stopped is not None and stopped():
                    ended.set()
                    return
                try:
                    work(thread, start, min(start + piece, count))
                except BaseException:
                    ended.set()
                    raise
                if report is not None and thread == 0:
                    report(min(start + piece, count))

        if count > piece:
            self.run(run, ended.set)
        else:
            run(0)
        return not ended.is_set()

    def run(self, work: Callable[[int], object], stop: Callable[[], object]) -> None:
        """Call `work(thread)` in every thread, and return when all have ended.

        Args:
            work: called with the number of the thread; the calling thread has number 0.
            stop: called if the work raises in the calling thread, so that other threads do not wait for it.
        """
        others = [self._pool.submit(work, k) for k in range(1, self.size)] if self._pool is not None else []
        try:
            work(0)
            wait(others)
        except BaseException:  # Ctrl-C may come while this thread waits.
            stop()
            wait(others)
            raise
        for other in others:
            other.result()


class Meeting:
    """A place where the threads of a crew wait for each other, in half the time of `threading.Barrier`."""

    def __init__(self, size: int) -> None:
        self._size, self._mutex, self._aborted = size, threading.Lock(), False
        self._waiting: list[threading.Lock] = []  # one locked lock for each thread that waits

    def wait(self) -> None:
        """Return when all threads have called this; raise `BrokenBarrierError` after an `abort`."""
        own = threading.Lock()
        with self._mutex:
            if len(self._waiting) == self._size - 1 or self._aborted:
                self._release()
            else:
                own.acquire()
                self._waiting.append(own)
        own.acquire()
        if self._aborted:
            raise threading.BrokenBarrierError

    def abort(self) -> None:
        """Let no thread wait any longer, now or later."""
        with self._mutex:
            self._aborted = True
            self._release()

    def _release(self) -> None:
        for lock in self._waiting:
            lock.release()
        self._waiting = []
