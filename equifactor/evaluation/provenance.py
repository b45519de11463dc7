"""The origin of a table: the command, the code, the machine and the date."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from equifactor._version import __version__
from equifactor.workers.code_version import PACKAGE, code_version


def provenance() -> dict[str, Any]:
    """Return the command, code, machine and date of this run as plain values for a results file."""
    return {
        "command": _command(),
        "version": __version__,
        "code": code_version(),
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gib": memory_gib(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("numpy", "numba", "torch")},
    }


def _command() -> str:
    """Return the command as a user would type it, without the folder of the program."""
    program = Path(sys.argv[0])
    if program.name != "__main__.py":
        return shlex.join([program.name, *sys.argv[1:]])
    package = program.parent.name
    start = ["equifactor"] if package == "equifactor" else ["python", "-m", package]
    return shlex.join([*start, *sys.argv[1:]])


def _commit() -> str | None:
    """Return the commit of the checkout that runs, with `+` if it has changes; None for an installed package."""
    if not (PACKAGE.parent / ".git").exists():
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError):

        def git(*words: str) -> str:
            command = ["git", "-C", str(PACKAGE.parent), *words]
            return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", "equifactor") else "")
    return None


def processor() -> str:
    """Return the name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def memory_gib() -> float | None:
    """Return the memory of the machine, or None if the system does not report it."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return None


def _version(package: str) -> str | None:
    with contextlib.suppress(PackageNotFoundError):
        return version(package)
    return None
