"""Packages that only some functions need, and the extra of this package that installs each."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from equifactor.base.errors import MissingPackageError

# By the name under which a package is imported.
EXTRAS = {
    "pyarrow": "parquet",
    "torch": "learned",
    "safetensors": "learned",
    "jaxtyping": "learned",
    "matplotlib": "plot",
    "pandas": "pandas",
    "stim": "decoding",
    "sinter": "decoding",
    "pytoulbar2": "toulbar2",
    "pyganak": "ganak",
    "distributed": "cluster",
    "lightning_fabric": "distributed",
    "networkx": "interop",
    "pgmpy": "interop",
    "pyagrum": "interop",
    "torch_geometric": "interop",
}


def is_installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    if package in sys.modules:
        return sys.modules[package] is not None
    return find_spec(package) is not None


def missing(package: str, function: str) -> MissingPackageError:
    """Return the error of `function`, which needs a package that is not installed."""
    extra = EXTRAS.get(package)
    way = f"pip install {package}" if extra is None else f'pip install "equifactor[{extra}]"'
    if extra == "interop":  # Users exchange models with one package more often than with all.
        way = f"pip install {package}, or {way} for all packages that models are exchanged with"
    return MissingPackageError(f"{function} needs {package}: {way}")


def explained(error: ModuleNotFoundError, function: str) -> Exception:
    """Return the error to raise in `function`: how to install a package of an extra, otherwise the error itself."""
    package = (error.name or "").partition(".")[0]
    return missing(package, function) if package in EXTRAS else error


def needed(module: str, function: str) -> Any:
    """Return a module that `function` needs; raise `MissingPackageError` if its package is not installed."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise  # The package is installed, but something that it needs is not.
        raise missing(package, function) from None
