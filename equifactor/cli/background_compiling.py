"""Kernels that a command could have used are compiled by a process in the background, once, after the command.

So the first commands answer by plain loops, and later ones find the kernels ready. The process has the lowest priority,
there is at most one, and it ends by itself after some minutes. `EQUIFACTOR_BACKGROUND=0` switches it off, and so does
the variable `CI`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

# What most commands use, in the order of their use; `doctor --warm` compiles all.
COMMON = ("exact", "bp", "search", "auto", "blocks", "regions", "conditioning")
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
    if folder is None or compile_costs.seconds_to_compile(*COMMON) < _LEAST or not _claim(folder / "background"):
        return
    with contextlib.suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", "equifactor.cli.kernel_warming", *COMMON],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=lambda: os.nice(_NICE), cwd=folder, env={**os.environ, "EQUIFACTOR_PLAIN": "0"},
        )  # fmt: skip


def _claim(path: Path) -> bool:
    """Return whether no process was started recently, and note that this one is."""
    with contextlib.suppress(OSError):
        if path.exists() and time.time() - path.stat().st_mtime < _AGAIN:
            return False
        path.touch()
        return True
    return False
