"""A lock on an open file that other processes respect, where the system has such locks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows has no fcntl.
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def locked(descriptor: int) -> Iterator[bool]:
    """Hold the only lock on an open file. Yield whether there is a lock: some network drives and Windows have none."""
    held = False
    if fcntl is not None:
        with contextlib.suppress(OSError):  # ENOLCK or EOPNOTSUPP
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            held = True
    try:
        yield held
    finally:
        if held:
            # Closing the file would not unlock it if a process that was forked meanwhile has it open as well.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
