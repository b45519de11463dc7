"""Packages that only some functions need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from equifactor.errors import OptionError

_EXCHANGED = ("pgmpy", "pyagrum", "networkx", "torch_geometric")


def needed(module: str, function: str) -> Any:
    """A module of another package, which `function` needs; raises `OptionError` where it is not installed."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise  # the package is there, and something that it needs itself is not
        all_of_them = ", or pip install 'equifactor[interop]' for all packages that models are exchanged with"
        raise OptionError(
            f"{function} needs the package {package}, which is not installed: pip install {package}"
            f"{all_of_them if package in _EXCHANGED else ''}"
        ) from None
