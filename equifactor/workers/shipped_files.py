"""Sending files along with work to another machine, which may not see the files of this one."""

from __future__ import annotations

import functools
import hashlib
import os
import socket
from collections.abc import Iterable
from pathlib import Path

from equifactor.base.errors import ClusterError
from equifactor.base.files import make_folder, write_bytes
from equifactor.base.private_folder import private_folder

# Bytes of the largest file that is sent. Workers must see a larger file under the same path. Chosen by hand.
MAX_SENT = 2**26


def sent_files(paths: Iterable[Path | None]) -> dict[Path, bytes]:
    """Return the content of each existing file that is small enough to be sent, by path; None is skipped."""
    found = [path for path in paths if path is not None and path.is_file() and path.stat().st_size <= MAX_SENT]
    return {path: path.read_bytes() for path in found}


def check_visible(paths: Iterable[Path | None]) -> None:
    """Raise `ClusterError` on a worker that does not see a file which was too large to be sent; None is skipped."""
    for path in paths:
        if path is not None and not path.is_file():
            raise ClusterError(
                f"The worker on {socket.gethostname()} does not see {path}, and files of more than "
                f"{MAX_SENT >> 20} MiB are not sent. Put the file on a file system that the workers share."
            )


def lasting_file(path: Path, data: bytes) -> Path:
    """Write a sent file to a path of this process that depends on its content only, so that later work finds it there.

    The file may be code that will run. So it is in a new folder that other users cannot enter, and its content is
    compared before every use.
    """
    target = Path(_own_folder(os.getpid()), hashlib.sha256(data).hexdigest(), path.name)
    if not target.is_file() or target.read_bytes() != data:
        make_folder(target.parent)
        write_bytes(target, data)  # atomic: another thread may write the same file
    return target


@functools.cache
def _own_folder(process: int) -> str:
    """Return the folder of this process."""
    return private_folder("equifactor-")
