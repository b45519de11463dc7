"""Where the bytes of an input come from: a file, stdin, or a pipe, which may be silent or endless."""

from __future__ import annotations

import io
import logging
import os
import select
import stat
import sys
from typing import TYPE_CHECKING, BinaryIO

from equifactor.base.errors import FormatError

if TYPE_CHECKING:
    from equifactor.base.files import PathLike

PIPE_LIMIT = 2**30  # bytes taken from stdin or a pipe, which is held in memory and may never end
_PATIENCE = 1000  # milliseconds of silence before a reader is told what it is waiting for
_PIECE = 2**20

log = logging.getLogger("equifactor")


def open_source(path: PathLike, where: str) -> BinaryIO:
    """A seekable binary file; stdin and pipes are read into memory first, up to `PIPE_LIMIT` bytes."""
    if os.fspath(path) == "-":
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None:
            raise FormatError("<stdin>: standard input is closed; give a file name instead of -")
        return _held(stream, where)
    if not os.fspath(path) or "\0" in os.fspath(path):
        raise FormatError(f"{os.fspath(path)!r} is not a file name")
    handle = _open_at_once(path)
    mode = os.fstat(handle.fileno()).st_mode
    if stat.S_ISREG(mode):
        return handle
    with handle:
        if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not handle.isatty()):
            raise FormatError(f"{where}: is a device, not a file")  # /dev/zero never ends
        if stat.S_ISFIFO(mode):
            _wait_for_writer(handle.fileno(), where)
        os.set_blocking(handle.fileno(), True)
        return _held(handle, where)


def file_limit() -> int:
    """The bytes of text that the machine may hold: half of its memory, for the tables take as much again."""
    if not hasattr(os, "sysconf"):
        return sys.maxsize
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def gibibytes(size: int) -> str:
    """A size in bytes as people read it: `1 GiB`, `11.8 GiB`."""
    return f"{size / 2**30:.3g} GiB"


def _open_at_once(path: PathLike) -> BinaryIO:
    """Open without waiting: the open of a pipe blocks until somebody writes to it, for ever if nobody does."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        return os.fdopen(descriptor, "rb")
    except OSError:  # a directory
        os.close(descriptor)
        raise


def _wait_for_writer(pipe: int, where: str) -> None:
    poll = select.poll()
    poll.register(pipe, select.POLLIN | select.POLLHUP)
    if not poll.poll(_PATIENCE):
        log.info("%s: waiting for somebody to write into this pipe (Ctrl-C ends it)", where)
        poll.poll()


def _held(stream: BinaryIO, where: str) -> BinaryIO:
    held = io.BytesIO()
    while piece := stream.read(_PIECE):
        if held.tell() + len(piece) > PIPE_LIMIT:
            raise FormatError(
                f"{where}: more than {gibibytes(PIPE_LIMIT)} came through the pipe; save it to a file and name that"
            )
        held.write(piece)
    held.seek(0)
    return held
