"""Kernels that a command could have used are compiled by a process in the background, once, after the command.

So the first commands answer by plain loops, and later ones find the kernels ready. A wheel has kernels for a common
denominator of processors. Those that gain by it are compiled once for this processor. The process has the lowest
priority, there is at most one, and it ends by itself after some minutes. `EQUIFACTOR_BACKGROUND=0` switches it off, and
so does the variable `CI`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

from equifactor._version import __version__

# What most commands use, in the order of their use; `doctor --warm` compiles all.
COMMON = ("exact", "bp", "search", "auto", "blocks", "regions", "conditioning")
# What is faster if it is compiled for this processor alone: sweeps of bp took 0.75 times as long on binary pairs, and
# 0.85 times on Potts factors. Elimination and decoding did not gain (AMD EPYC with AVX-512).
NATIVE = ("bp",)
_LEAST = 2.0  # Seconds of compiling below which a process is not worth starting.
_AGAIN = 600.0  # Seconds after which another process may be started: then the last one has ended or was killed.
_NICE = 19  # The lowest priority of a process.


def compile_in_background() -> None:
    """Start the process if kernels are missing, a folder can hold them and the user has not switched it off."""
    if os.environ.get("EQUIFACTOR_BACKGROUND", "") == "0" or "CI" in os.environ or os.name != "posix":
        return
    from equifactor.kernels import compile_costs
    from equifactor.kernels.kernel_folders import kernel_folder

    folder = kernel_folder()
    if folder is None:
        return
    missing = compile_costs.seconds_to_compile(*COMMON) >= _LEAST
    native = not missing and not _native_mark(folder).exists()
    native = native and compile_costs.seconds_to_compile(*NATIVE, native=True) >= _LEAST
    if not (missing or native) or not _claim(folder / "background"):
        return
    only_native = {"EQUIFACTOR_PORTABLE": "0"} if native else {}
    with contextlib.suppress(OSError):
        if native:
            _native_mark(folder).touch()
        subprocess.Popen(
            [sys.executable, "-m", "equifactor.cli.kernel_warming", *(NATIVE if native else COMMON)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=lambda: os.nice(_NICE), cwd=folder,
            env={**os.environ, "EQUIFACTOR_PLAIN": "0", **only_native},
        )  # fmt: skip


def _native_mark(folder: Path) -> Path:
    """Return the file that shows that kernels for this processor were compiled once for this version."""
    return folder / f"native-{__version__}"


def _claim(path: Path) -> bool:
    """Return whether no process was started recently, and note that this one is."""
    with contextlib.suppress(OSError):
        if path.exists() and time.time() - path.stat().st_mtime < _AGAIN:
            return False
        path.touch()
        return True
    return False
