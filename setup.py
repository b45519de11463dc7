"""Builds a wheel with compiled kernels, so that an installed package answers at once. All else is in pyproject.toml.

The kernels are compiled for a common denominator of processors (x86-64-v3, or any 64-bit ARM), and for the versions of
Python, Numba and LLVM that the wheel is built with. With other versions they are ignored and compiled when needed.
EQUIFACTOR_BUILD_KERNELS=0 builds a small wheel without them, for any platform.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

WANTED = os.environ.get("EQUIFACTOR_BUILD_KERNELS", "1")  # "0" for none, "1" for all, or names of families
_OLD = 40 * 86400.0  # Seconds: an entry of this age is marked as used when it is loaded, and not yet deleted.


class BuildWithKernels(build_py):
    """Copies the package, then runs every family of solvers in the copy and keeps the machine code that they load."""

    def run(self) -> None:
        """Build the package."""
        super().run()
        if self.editable_mode or WANTED == "0":
            return
        try:
            import numba  # noqa: F401 - it is there in an isolated build
        except ImportError:
            print("numba is not installed here: the wheel has no compiled kernels", file=sys.stderr)
            return
        with tempfile.TemporaryDirectory() as folder:
            self._compile(folder)
            long_ago = time.time() - _OLD
            for path in Path(folder).rglob("*.kernel"):
                os.utime(path, (long_ago, long_ago))
            # Now everything is loaded, and what is called from inside of a kernel is not. A few kernels are compiled:
            # those that Python called in the first run with types that another kernel had compiled them for.
            self._compile(folder)
            kernels = sorted(Path(folder).rglob("*.kernel"))
            target = Path(self.build_lib, "equifactor", "kernels", "compiled")
            target.mkdir(parents=True, exist_ok=True)
            for path in kernels:
                if path.stat().st_mtime > long_ago + 1.0:
                    self.copy_file(str(path), str(target / path.name))
            folders = self._imported("kernel_folders")
            (target / folders.MADE_WITH).write_text(folders.contents(kernels))

    def _compile(self, folder: str) -> None:
        name, features = self._imported("kernel_cache").PORTABLE.get(platform.machine(), ("", ""))
        portable = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features} if name else {}
        # An isolated build finds Numba by the path that pip has set.
        paths = [str(Path(self.build_lib).resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ, **portable, "PYTHONPATH": os.pathsep.join(paths), "NUMBA_CACHE_DIR": folder,
            "EQUIFACTOR_PLAIN": "0", "PYTHONPYCACHEPREFIX": folder,
        }  # fmt: skip
        chosen = [] if WANTED == "1" else WANTED.split(",")
        subprocess.run(
            [sys.executable, "-m", "equifactor.cli.kernel_warming", *chosen], env=environment, check=True, cwd=folder
        )

    def _imported(self, name: str) -> ModuleType:
        """Return a module of the copy of the package."""
        sys.path.insert(0, self.build_lib)
        sys.dont_write_bytecode = True  # The copy becomes the wheel.
        try:
            return import_module(f"equifactor.kernels.{name}")
        finally:
            sys.path.remove(self.build_lib)


class WithKernels(Distribution):
    """A distribution for one platform, if it has compiled kernels."""

    def has_ext_modules(self) -> bool:
        """Return whether the wheel is for one platform and one version of Python."""
        return WANTED != "0"


setup(cmdclass={"build_py": BuildWithKernels}, distclass=WithKernels)
