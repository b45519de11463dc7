# mypy: ignore-errors
"""A kernel is compiled by one process at a time; others that need it wait, and read it from the cache.

Numba has no such lock. Processes that start together on an empty cache would all compile the same kernels, and two that
end together write the same files: the index of one, with the machine code of the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock

from equifactor.base.clock import Pause

try:
    import fcntl
except ImportError:  # Windows: there every process compiles for itself
    fcntl = None

_held: set[Path] = set()  # guarded by Numba's lock


def compile_alone(kernel: Any) -> None:
    """Make a kernel with a cache on disk take a lock beside its files while it is compiled or loaded."""
    function, compile_now = kernel.py_func, kernel.compile
    name = f"{function.__module__}.{function.__qualname__}-{function.__code__.co_firstlineno}.lock"
    path = Path(kernel._cache.cache_path) / name

    def compile_in_turn(signature):
        # Threads of this process wait for Numba's lock first: one that held the file and waited for it would stop
        # another that has it and needs the file. Kernels call each other without circles, so processes cannot either.
        with global_compiler_lock, _lock(path):
            return compile_now(signature)

    kernel.compile = compile_in_turn


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock file; if it cannot be made or locked, go on without it. Clocks do not count the wait."""
    if fcntl is None or path in _held:
        yield
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = stack.enter_context(path.open("wb"))
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                Pause.begin()
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX)
                finally:
                    Pause.end()
            # Closing the file would not do: a process that was forked meanwhile has it open as well.
            stack.callback(fcntl.flock, handle, fcntl.LOCK_UN)
        _held.add(path)
        stack.callback(_held.discard, path)
        yield
