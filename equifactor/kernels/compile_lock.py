# mypy: ignore-errors
"""A lock that lets one process at a time compile a kernel; others that need it wait, and read it from the cache.

Numba has no such lock. Processes that start together on an empty cache would all compile the same kernels. Two that
finish together would write the same files, and could leave the index of one with the machine code of the other.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock

from equifactor.base.clock import Clock, Compiling, NotCompiledError
from equifactor.kernels.compile_costs import compile_seconds_of
from equifactor.kernels.kernel_folders import lock_folder

try:
    import fcntl
except ImportError:  # Windows: there every process compiles for itself
    fcntl = None

_POLL = 0.02  # Seconds between two attempts to lock a file. Compiling takes longer.
_held: set[Path] = set()  # guarded by Numba's lock


def compile_alone(kernel: Any) -> None:
    """Make a kernel with a cache on disk take a lock beside its files while it is compiled or loaded."""
    function, compile_now = kernel.py_func, kernel.compile
    name = f"{function.__module__}.{function.__qualname__}-{function.__code__.co_firstlineno}.lock"

    def compile_in_turn(signature):
        # Numba's lock comes before the lock file. In the other order, a thread that holds the file could wait for a
        # thread that holds Numba's lock and needs the file. Processes cannot wait for each other in this way, because
        # kernels do not call each other in circles.
        with global_compiler_lock:
            folder = lock_folder()
            with contextlib.nullcontext() if folder is None else _lock(folder / name):
                return compile_now(signature)

    kernel.compile = compile_in_turn


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock file; if it cannot be made or locked, go on without it.

    Raises:
        NotCompiledError: if another process holds it at the deadline of the call.
    """
    if fcntl is None or path in _held:
        yield
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = stack.enter_context(path.open("wb"))
            _wait_for(handle, path.stem)
            # Closing the file would not release the lock: a process that was forked meanwhile has the file open too.
            stack.callback(fcntl.flock, handle, fcntl.LOCK_UN)
        _held.add(path)
        stack.callback(_held.discard, path)
        yield


def _wait_for(handle: Any, kernel: str) -> None:
    """Lock a file. While another process holds it, time counts as compiling."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    Compiling.begin()
    try:
        while (left := Clock.left_to_compile()) < float("inf"):
            if left <= 0.0:
                raise NotCompiledError(kernel, compile_seconds_of(kernel), left)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(_POLL)
        fcntl.flock(handle, fcntl.LOCK_EX)
    finally:
        Compiling.end()
