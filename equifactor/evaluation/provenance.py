"""What produced a table: the command, the code, the machine and the date."""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from equifactor._version import __version__

_PACKAGE = Path(__file__).parents[1]


@functools.cache
def code() -> str:
    """The version and a short hash of the package's source and weights, which differs wherever two checkouts differ."""
    digest = hashlib.sha256()
    for path in sorted([*_PACKAGE.rglob("*.py"), *_PACKAGE.rglob("*.safetensors")]):
        digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\0" + path.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"


def provenance() -> dict[str, Any]:
    """The command, code, machine and date of this run, as plain values for a results file."""
    return {
        "command": _command(),
        "version": __version__,
        "code": code(),
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
    """The command as one would type it, without the folder of the program."""
    program = Path(sys.argv[0])
    if program.name != "__main__.py":
        return shlex.join([program.name, *sys.argv[1:]])
    package = program.parent.name
    start = ["equifactor"] if package == "equifactor" else ["python", "-m", package]
    return shlex.join([*start, *sys.argv[1:]])


def _commit() -> str | None:
    """The commit of the checkout that runs, with `+` when it has changes; None for an installed package."""
    if not (_PACKAGE.parent / ".git").exists():
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError):

        def git(*words: str) -> str:
            command = ["git", "-C", str(_PACKAGE.parent), *words]
            return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", "equifactor") else "")
    return None


def processor() -> str:
    """The name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def memory_gib() -> float | None:
    """The memory of the machine, where the system tells it."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return None


def _version(package: str) -> str | None:
    with contextlib.suppress(PackageNotFoundError):
        return version(package)
    return None
