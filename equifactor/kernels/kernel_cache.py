# mypy: ignore-errors
"""The cache of compiled kernels on disk. A cache that is damaged, full or read-only costs time but never an answer.

Numba raises whatever the files make it raise, and LLVM ends the process for machine code with a wrong byte. So every
entry is saved with a digest. A damaged entry is deleted and compiled again. If an entry cannot be saved, it goes to a
temporary folder that this process and those that it starts share.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import pickle
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core import config
from numba.core.caching import FunctionCache, IndexDataCacheFile

from equifactor.base.files import reason
from equifactor.base.private_folder import private_folder

# The environment variable by which a process that this one starts finds the temporary folder.
TEMPORARY = "EQUIFACTOR_TEMPORARY_KERNELS"
_SEAL = b"\nequifactor sha256 "  # Stands between an entry and its digest. An entry of an earlier version has none.
_said: set[str] = set()  # The kinds of problems that were reported.
log = logging.getLogger("equifactor")


class DamagedEntryError(Exception):
    """An entry of the cache differs from what was saved."""


class SealedFiles(IndexDataCacheFile):
    """The files of one kernel: an index and one entry for each signature, each with a digest at its end.

    Numba's own files are read too, because unpickling ignores what follows.
    """

    def _dump(self, obj):
        data = super()._dump(obj)
        return data + _SEAL + hashlib.sha256(data).digest()

    def _load_index(self):
        with contextlib.suppress(FileNotFoundError), Path(self._index_path).open("rb") as handle:
            pickle.load(handle)  # the version of Numba
            _check_seal(handle.read())
        return super()._load_index()

    def _load_data(self, name):
        _check_seal(Path(self._data_path(name)).read_bytes())
        return super()._load_data(name)

    def delete(self) -> None:
        """Delete the files of this kernel, as far as that is permitted."""
        with contextlib.suppress(OSError):
            Path(self._index_path).unlink()  # entries without an index are overwritten


class KernelCache(FunctionCache):
    """The cache of one kernel. Loading and saving do not raise errors of files."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        files = self._cache_file
        self._cache_file = SealedFiles(self._cache_path, self._impl.filename_base, files._source_stamp)
        self._instead: KernelCache | None = None  # the cache of this kernel in the temporary folder

    def load_overload(self, sig, target_context):
        """Return the compiled kernel of a signature, or None if it must be compiled."""
        found = self._load(sig, target_context)
        if found is None and self._instead is None and TEMPORARY in os.environ:
            self._instead = _temporary_cache(self._py_func)  # the process that started this one could not save here
        if found is None and self._instead is not None:
            found = self._instead._load(sig, target_context)
        return found

    def _load(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except (OSError, MemoryError):  # nothing shows that the entry is damaged
            return None
        except Exception as error:
            self._cache_file.delete()
            _say_once(
                "damaged",
                f"{self._cache_path}: a compiled kernel in this folder is damaged ({type(error).__name__}) and is "
                "compiled again.",
            )
            return None

    def save_overload(self, sig, data):
        """Save a compiled kernel here, or in the temporary folder."""
        if self._instead is None:
            try:
                return super().save_overload(sig, data)
            except Exception as error:
                _say_once(
                    "unsaved",
                    f"{self._cache_path}: compiled kernels cannot be saved in this folder: "
                    f"{reason(error) if isinstance(error, OSError) else type(error).__name__}. Later runs compile them "
                    "again. Set NUMBA_CACHE_DIR to a folder that can be written and has space.",
                )
                self._instead = _temporary_cache(self._py_func)
        if self._instead is not None:
            with contextlib.suppress(Exception):
                FunctionCache.save_overload(self._instead, sig, data)
        return None


def cache_of(function: Callable[..., Any]) -> KernelCache | None:
    """Return the cache of a kernel, or None if no folder can be written."""
    try:
        return KernelCache(function)
    except (RuntimeError, OSError):  # neither the package nor the user's cache folder can be written
        if TEMPORARY not in os.environ:  # otherwise the process that started this one has reported it
            _say_once(
                "unsaved",
                "Compiled kernels cannot be saved: no folder for them can be written. Later runs compile them again. "
                "Set NUMBA_CACHE_DIR to a folder that can be written.",
            )
        return _temporary_cache(function)


def _check_seal(data: bytes) -> None:
    payload, seal, digest = data.rpartition(_SEAL)
    if seal and hashlib.sha256(payload).digest() != digest:
        raise DamagedEntryError


def _temporary_cache(function: Callable[..., Any]) -> KernelCache | None:
    """Return a cache in the temporary folder, or None if there is no such folder."""
    before = config.CACHE_DIR
    try:
        config.CACHE_DIR = temporary_folder(os.getpid())
        return KernelCache(function) if config.CACHE_DIR else None
    except (RuntimeError, OSError):
        return None
    finally:
        config.CACHE_DIR = before


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


def _say_once(kind: str, sentence: str) -> None:
    if kind not in _said:
        _said.add(kind)
        log.warning(sentence)
