"""Opening the source of an input: a file, stdin, or a pipe. A pipe may stay silent or never end."""

from __future__ import annotations

import io
import logging
import os
import select
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from equifactor.base.errors import FormatError, brief

if TYPE_CHECKING:
    from equifactor.base.files import PathLike

# Bytes read from stdin or a pipe at most: they are held in memory, and a pipe may never end. Chosen by hand.
PIPE_LIMIT = 2**30
# Milliseconds of waiting for a pipe before a log message explains the wait. Chosen by hand.
_SILENT_WAIT = 1000
_READ_SIZE = 2**20  # Bytes read from a pipe at a time: 1 MiB.

log = logging.getLogger("equifactor")


def open_source(path: PathLike, where: str) -> BinaryIO:
    """Return a seekable binary file; stdin and pipes are first read into memory, up to `PIPE_LIMIT` bytes."""
    if os.fspath(path) == "-":
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None:
            raise FormatError("<stdin>: standard input is closed. Give a file name instead of -.")
        return _in_memory(stream, where)
    if not is_file_name(os.fspath(path)):
        raise FormatError(f"{brief(os.fspath(path))} is not a file name.")
    handle = _open_at_once(path)
    mode = os.fstat(handle.fileno()).st_mode
    if stat.S_ISREG(mode):
        return handle
    with handle:
        if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not handle.isatty()):
            raise FormatError(f"{where}: this is a device, not a file.")  # /dev/zero never ends
        if stat.S_ISFIFO(mode):
            _wait_for_writer(handle.fileno(), where)
        os.set_blocking(handle.fileno(), True)
        return _in_memory(handle, where)


def is_file(path: PathLike) -> bool:
    """Return whether a path names a file, also for text that cannot be a name."""
    try:
        return is_file_name(os.fspath(path)) and Path(path).is_file()
    except OSError:
        return False


def is_file_name(text: str) -> bool:
    """Return whether a text can name a file: it may not be empty or contain zero bytes or half of a surrogate pair."""
    try:
        name = os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return bool(name) and b"\0" not in name


def file_limit() -> int:
    """Return how many bytes of text may be read: half of the memory, since the tables need as much again."""
    if not hasattr(os, "sysconf"):
        return sys.maxsize
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def gibibytes(size: int) -> str:
    """Format a size in bytes for people: `1 GiB`, `11.8 GiB`."""
    return f"{size / 2**30:.3g} GiB"


def _open_at_once(path: PathLike) -> BinaryIO:
    """Open without waiting. Opening a pipe would otherwise block until another process writes to it, maybe forever."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        return os.fdopen(descriptor, "rb")
    except OSError:  # a directory
        os.close(descriptor)
        raise


def _wait_for_writer(pipe: int, where: str) -> None:
    poll = select.poll()
    poll.register(pipe, select.POLLIN | select.POLLHUP)
    if not poll.poll(_SILENT_WAIT):
        log.info("%s: waiting for another process to write into this pipe (Ctrl-C stops waiting)", where)
        poll.poll()


def _in_memory(stream: BinaryIO, where: str) -> BinaryIO:
    held = io.BytesIO()
    while piece := stream.read(_READ_SIZE):
        if held.tell() + len(piece) > PIPE_LIMIT:
            raise FormatError(
                f"{where}: the pipe delivered more than {gibibytes(PIPE_LIMIT)}. Save its output to a file and read "
                "that file."
            )
        held.write(piece)
    held.seek(0)
    return held
