"""Packages that only some functions need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from equifactor.errors import OptionError


def needed(module: str, function: str) -> Any:
    """A module of another package; raises `OptionError` where it is not installed."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise  # the package is there, and something that it needs itself is not
        raise OptionError(
            f"{function} needs the package {package}, which is not installed: pip install {package}, or pip install "
            "'equifactor[interop]' for all packages that models are exchanged with"
        ) from None
