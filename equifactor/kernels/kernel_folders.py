"""Where compiled kernels lie: the folder of the user, the folder beside the package, and a temporary one.

Importing this module does not import Numba.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from equifactor.base.private_folder import private_folder

# The environment variable by which a process that this one starts finds the temporary folder.
TEMPORARY = "EQUIFACTOR_TEMPORARY_KERNELS"
SHIPPED = Path(__file__).with_name("compiled")  # Kernels that came with the package, or that `doctor --warm` put there.
SUFFIX = ".kernel"  # Of the files of entries.
UNUSED_DAYS = 90.0  # Days after which an entry that was not loaded is deleted: longer than most releases are used.
DAY = 86400.0  # Seconds.
_instead: list[Path] = []  # The folder in place of that of the user, once `use_shipped_folder` was called.


def kernel_folder() -> Path | None:
    """Return the folder of this user's kernels, made if it is missing; None if it cannot be used.

    Its files are loaded as code. So it must belong to this user, and others must not be able to write to it.
    """
    return _made_folder(
        os.environ.get("NUMBA_CACHE_DIR", ""), os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    )


@functools.cache
def _made_folder(given: str, cache_home: str, home: str) -> Path | None:
    if given:
        folder = Path(given) / "equifactor"
    elif os.name == "nt":
        folder = Path(os.environ.get("LOCALAPPDATA", "")) / "equifactor" / "kernels"
    elif sys.platform == "darwin":
        folder = Path(home, "Library/Caches/equifactor/kernels")
    else:
        folder = Path(cache_home or Path(home, ".cache"), "equifactor/kernels")
    if not folder.is_absolute() and not given:
        return None  # no home: the working directory is not the place
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.stat()
    except OSError:
        return None
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o022) and not given:
        return None
    if not os.access(folder, os.W_OK):
        return None
    _delete_unused(folder)
    return folder


def lock_folder() -> Path | None:
    """Return the folder where processes that compile the same kernel wait for each other."""
    folder = next(user_folders(), None)
    return None if folder is None else folder / "locks"


def use_shipped_folder() -> None:
    """Save kernels beside the package from now on, where all users of this installation find them.

    Raises:
        OSError: if that folder cannot be written.
    """
    SHIPPED.mkdir(parents=True, exist_ok=True)
    if not os.access(SHIPPED, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(SHIPPED))
    _instead.append(SHIPPED)


def user_folders() -> Iterator[Path]:
    """Return the folders that this user's kernels are looked up in."""
    folder = kernel_folder()
    if folder is not None:
        yield folder
    if TEMPORARY in os.environ:
        yield Path(temporary_folder(os.getpid()))


def _delete_unused(folder: Path) -> None:
    """Delete entries that were not used for months, and unfinished files of processes that were killed."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        now = time.time()
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_file() and now - entry.stat().st_mtime > UNUSED_DAYS * DAY:
                    Path(entry.path).unlink()


@functools.cache
def temporary_folder(process: int) -> str:
    """Return the folder of the process that started this one, or a new one; empty if none can be made.

    The files are loaded as code. So the folder must belong to this user, and others must not be able to enter it.
    """
    with contextlib.suppress(OSError):
        found = Path(os.environ.get(TEMPORARY, "?")).lstat()
        mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
        if stat.S_ISDIR(found.st_mode) and mine:
            return os.environ[TEMPORARY]
    with contextlib.suppress(OSError):
        os.environ[TEMPORARY] = private_folder("equifactor-kernels-")
        return os.environ[TEMPORARY]
    return ""
