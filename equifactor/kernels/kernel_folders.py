"""Where compiled kernels lie: the folder of the user, the folder beside the package, and a temporary one.

Importing this module does not import Numba.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from equifactor.base.private_folder import private_folder

# The environment variable by which a process that this one starts finds the temporary folder.
TEMPORARY = "EQUIFACTOR_TEMPORARY_KERNELS"
SHIPPED = Path(__file__).with_name("compiled")  # Kernels that came with the package, or that `doctor --warm` put there.
SUFFIX = ".kernel"  # Of the files of entries.
MADE_WITH = (
    "made_with.json"  # The file beside the kernels of a wheel: what they are, and the versions that compiled them.
)
UNUSED_DAYS = 90.0  # Days after which an entry that was not loaded is deleted: longer than most releases are used.
DAY = 86400.0  # Seconds.
_instead: list[Path] = []  # The folder in place of that of the user, once `use_shipped_folder` was called.


def kernel_folder() -> Path | None:
    """Return the folder of this user's kernels, made if it is missing; None if it cannot be used.

    Its files are loaded as code. So it must belong to this user, and others must not be able to write to it.
    """
    if _instead:
        return _instead[-1]
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


def contents(kernels: Iterable[Path]) -> str:
    """Return the text of the file `MADE_WITH` for a wheel.

    Args:
        kernels: the files of all kernels that were compiled. The wheel lacks those that are only called by others.
    """
    return json.dumps({"versions": _versions(), "kernels": sorted({kernel_name(path.name) for path in kernels})}) + "\n"


def shipped_kernels(native: bool = False) -> set[str]:
    """Return the names of the kernels beside the package that the installed versions can use.

    Args:
        native: whether to leave out kernels for a common denominator of processors, as a wheel has them.
    """
    try:
        made = json.loads((SHIPPED / MADE_WITH).read_text(encoding="utf-8"))
        return {*made["kernels"]} if made["versions"] == _versions() and not native else set()
    except FileNotFoundError:
        return names_in(SHIPPED)
    except (OSError, ValueError, KeyError, TypeError):
        return set()


@functools.cache
def _versions() -> dict[str, str]:
    """Return the installed versions that machine code depends on."""
    from importlib import metadata  # It imports what reads mail and archives: 5 ms.

    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return {"python": python, **{name: metadata.version(name) for name in ("numba", "llvmlite")}}


_TICK = 10**9  # Nanoseconds in which a folder may change twice with one time of change: far more than any clock's tick.
_listed: dict[Path, tuple[int, set[str]]] = {}  # When folders had changed as they were read, and what they held.


def names_in(folder: Path) -> set[str]:
    """Return the names of the kernels that have files in a folder; a folder that has not changed is not read again."""
    try:
        changed = os.stat(folder).st_mtime_ns  # noqa: PTH116 - it takes half of the time of `Path.stat`
        if folder in _listed and _listed[folder][0] == changed:
            return _listed[folder][1]
        files = os.listdir(folder)  # noqa: PTH208 - it takes a third of the time of `iterdir`
    except OSError:
        return set()
    names = {kernel_name(file) for file in files if file.endswith(SUFFIX)}
    if time.time_ns() - changed > _TICK:
        _listed[folder] = changed, names
    return names


def kernel_name(file: str) -> str:
    """Return the name of the kernel that a file belongs to."""
    return file.rpartition("-")[0]


def user_folders() -> Iterator[Path]:
    """Return the folders that this user's kernels are looked up in."""
    folder = kernel_folder()
    if folder is not None:
        yield folder
    if TEMPORARY in os.environ:
        yield Path(temporary_folder(os.getpid()))


def _delete_unused(folder: Path) -> None:
    """Delete entries that were not used for months, and unfinished files of killed processes, at most once a day."""
    now, last = time.time(), folder / "searched"
    with contextlib.suppress(OSError):
        if abs(now - last.stat().st_mtime) < DAY:
            return
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_file() and now - entry.stat().st_mtime > UNUSED_DAYS * DAY:
                    Path(entry.path).unlink()
        last.touch()


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
