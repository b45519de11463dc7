"""The build backend: setuptools, which also gets the packages that compiled kernels need.

A wheel with kernels is built by running the solvers, so the build needs what the package itself needs, in the versions
of constraints.txt: kernels serve only the version of Numba that compiled them. An editable installation and a wheel
without kernels (EQUIFACTOR_BUILD_KERNELS=0) need setuptools alone.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the hooks that are not changed here

_ROOT = Path(__file__).resolve().parents[2]


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return what a build of a wheel needs beside setuptools."""
    needed = build_meta.get_requires_for_build_wheel(config_settings)
    if os.environ.get("EQUIFACTOR_BUILD_KERNELS", "1") == "0":
        return needed
    return [*needed, *_pinned(tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["dependencies"])]


def _pinned(requirements: list[str]) -> list[str]:
    """Return the requirements in the versions of constraints.txt, which a source archive may lack."""
    path = _ROOT / "constraints.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    pins = {line.split("==")[0].lower(): line for line in lines if "==" in line}
    names = [re.split(r"[<>=!~ \[]", requirement)[0].lower() for requirement in requirements]
    pinned = [pins.get(name, requirement) for name, requirement in zip(names, requirements, strict=True)]
    return [*pinned, *([pins["llvmlite"]] if "llvmlite" in pins else [])]
