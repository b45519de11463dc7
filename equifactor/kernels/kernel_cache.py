# mypy: ignore-errors
"""Compiled kernels on disk. A cache that is damaged, full or read-only costs time but never an answer.

An entry is one file. Its name is a digest of everything that its machine code depends on: the sources, the signature,
the options, the processor, and the versions of Python, Numba and LLVM. So entries never have to be compared with
anything, versions stand side by side, and unused entries are deleted after some months. Numba's own cache
keeps an index per kernel and tells entries apart by the path and the time of the source, so that a copy compiles again;
it also misses changes of functions that a kernel calls from another file.

Kernels are looked up in the folder of the user first, then beside the package, where a wheel has kernels for a common
denominator of processors. LLVM ends the process for machine code with a wrong byte, so every entry has a digest at its
end; a damaged entry is deleted and compiled again. If an entry cannot be saved, it goes to a temporary folder that this
process and those that it starts share.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import pickle
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.caching import NullCache
from numba.core.serialize import dumps

from equifactor.base.files import reason
from equifactor.kernels import kernel_folders
from equifactor.kernels.compile_costs import check_time
from equifactor.kernels.early_linking import depends_on_process, rebuilt
from equifactor.kernels.kernel_folders import (
    DAY,
    SUFFIX,
    TEMPORARY,
    UNUSED_DAYS,
    kernel_folder,
    temporary_folder,
    user_folders,
)
from equifactor.kernels.source_stamp import UnstableError, function_stamp

_SEAL = b"\nequifactor sha256 "  # Stands between an entry and its digest.
_FORMAT = "4"  # Of the entries. A new one makes all entries of older versions unknown.
_VERSIONS = (
    f"{_FORMAT} {sys.version_info[:2]} {sys.implementation.cache_tag} {numba.__version__} {llvmlite.__version__}"
)
# A processor that nearly all in use since 2015 equal, and what it adds to the oldest of its kind.
PORTABLE = {
    "x86_64": (
        "x86-64-v3",
        "+avx,+avx2,+bmi,+bmi2,+cx16,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3",
    ),
    "aarch64": ("generic", "+neon"),
    "arm64": ("generic", "+neon"),
}
_said: set[str] = set()  # The kinds of problems that were reported.
log = logging.getLogger("equifactor")


class DamagedEntryError(Exception):
    """An entry of the cache differs from what was saved."""


class KernelCache(NullCache):
    """The entries of one kernel. Loading and saving do not raise errors of files."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._function = function
        self._options = repr(sorted((name, sorted(v) if isinstance(v, set) else v) for name, v in options.items()))

    @property
    def name(self) -> str:
        """The name of the kernel, which the files of its entries begin with."""
        name = f"{self._function.__module__}.{self._function.__qualname__}".replace("<locals>.", "")
        return name.removeprefix("equifactor.")[:120]

    @functools.cached_property
    def _stamp(self) -> str | None:
        """Text for all that entries depend on beside signature and processor; None if no text is stable."""
        try:
            return f"{_VERSIONS}\n{function_stamp(self._function)}\n{self._options}"
        except (UnstableError, OSError, UnicodeDecodeError):
            return None

    def file_name(self, sig: Any, target: tuple[str, ...]) -> str | None:
        """Return the name of the file for a signature and a processor (triple, name, features).

        The types of the arguments decide. A signature with a return type, as `Separate` states it, has the same file.
        """
        text = str(tuple(getattr(sig, "args", sig)))
        if self._stamp is None or " at 0x" in text:
            return None
        digest = hashlib.sha256(f"{self._stamp}\n{text}\n{target}".encode()).hexdigest()
        return f"{self.name}-{digest[:32]}{SUFFIX}"

    def load_overload(self, sig, target_context):
        """Return the compiled kernel of a signature, or None if it must be compiled and there is time for that.

        Raises:
            NotCompiledError: if it would be compiled after the deadline of the call.
        """
        target_context.refresh()
        for path in self._places(sig, target_context.codegen().magic_tuple()):
            with contextlib.suppress(OSError, MemoryError):  # nothing shows that the entry is damaged
                data = path.read_bytes()
                try:
                    made = rebuilt(target_context, pickle.loads(_checked(data)))
                except (OSError, MemoryError):
                    continue
                except Exception as error:
                    _drop(path, error)
                    continue
                _mark_used(path)
                return made
        check_time(self.name)
        return None

    def _places(self, sig, target) -> Iterator[Path]:
        """Return the files that may hold a kernel, the best first."""
        own = self.file_name(sig, target)
        if own is None:
            return
        folders = [*user_folders(), kernel_folders.SHIPPED]
        yield from (folder / own for folder in folders)
        # The process in the background sets the variable, to compile kernels for this processor.
        portable = None if os.environ.get("EQUIFACTOR_PORTABLE") == "0" else portable_target(target[0])
        if portable is not None and portable != target:
            yield kernel_folders.SHIPPED / self.file_name(sig, portable)

    def save_overload(self, sig, data):
        """Save a compiled kernel in the first folder that takes it."""
        name = self.file_name(sig, data.codegen.magic_tuple())
        if name is None or data.lifted or depends_on_process(data.library):
            return
        parts = data._reduce()
        sealed = _sealed(dumps((*parts[:6], "", *parts[7:])))  # without the listing of its types
        folder = kernel_folder()
        if folder is not None:
            try:
                _write(folder / name, sealed)
                return
            except OSError as error:
                _say_once(
                    "unsaved",
                    f"{folder}: compiled kernels cannot be saved in this folder: {reason(error)}. Later runs compile "
                    "them again. Set NUMBA_CACHE_DIR to a folder that can be written and has space.",
                )
        elif TEMPORARY not in os.environ:  # otherwise the process that started this one has reported it
            _say_once(
                "unsaved",
                "Compiled kernels cannot be saved: no folder for them can be written. Later runs compile them again. "
                "Set NUMBA_CACHE_DIR to a folder that can be written.",
            )
        instead = temporary_folder(os.getpid())
        if instead:
            with contextlib.suppress(OSError):
                _write(Path(instead) / name, sealed)


def portable_target(triple: str) -> tuple[str, str, str] | None:
    """Return (triple, name, features) of the processor that kernels in a wheel are made for; None if this one is older.

    Args:
        triple: the target of this machine, such as `x86_64-unknown-linux-gnu`.
    """
    known = PORTABLE.get(triple.partition("-")[0])
    return None if known is None or not _has(known[1]) else (triple, *known)


@functools.cache
def _has(features: str) -> bool:
    from llvmlite import binding

    here = binding.get_host_cpu_features()
    return all(here.get(feature.lstrip("+"), False) for feature in features.split(","))


def _sealed(data: bytes) -> bytes:
    return data + _SEAL + hashlib.sha256(data).digest()


def _checked(data: bytes) -> bytes:
    """Return an entry without its digest; raise `DamagedEntryError` if that does not fit."""
    payload, seal, digest = data.rpartition(_SEAL)
    if not seal or hashlib.sha256(payload).digest() != digest:
        raise DamagedEntryError
    return payload


def _write(path: Path, data: bytes) -> None:
    """Write a file that other processes see whole or not at all."""
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data)
        partial.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def _drop(path: Path, error: Exception) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
    _say_once(
        "damaged",
        f"{path.parent}: a compiled kernel in this folder is damaged ({type(error).__name__}) and is compiled again.",
    )


def _mark_used(path: Path) -> None:
    """Note that an entry is in use, at most once in a third of the time after which it would be deleted."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > UNUSED_DAYS / 3 * DAY:
            os.utime(path)


def _say_once(kind: str, sentence: str) -> None:
    if kind not in _said:
        _said.add(kind)
        log.warning(sentence)
