"""The choice between plain NumPy and compiled kernels, which are faster once they are compiled and loaded.

A model that plain NumPy solves before kernels are loaded, or compiled, never waits for them. What plain NumPy has taken
in this process so far counts as well: a program that asks many questions pays for the kernels once, and gains by them.
"""

from __future__ import annotations

import math
import os
import sys
from typing import Literal

from equifactor.base.clock import Clock
from equifactor.kernels.compile_costs import COMPILE_SHARE, load_seconds, seconds_to_compile

Family = Literal["elimination", "messages", "decoding", "networks"]

# The module that is loaded with the kernels of each family.
_MODULES: dict[Family, str] = {
    "elimination": "equifactor.solvers.elimination.elimination_kernels",
    "messages": "equifactor.factors.factor_messages",
    "decoding": "equifactor.decoding.lane_kernels",
    "networks": "equifactor.solvers.learned.native.network_kernels",
}
_ready: set[Family] = set()  # The families whose kernels are compiled and loaded.
_spent: dict[Family, float] = dict.fromkeys(_MODULES, 0.0)  # Seconds of plain NumPy in this process.


def plain_is_better(plain_seconds: float, kernel_seconds: float, family: Family, count: bool = True) -> bool:
    """Return whether plain NumPy ends sooner than kernels, with the time to load and compile them.

    The environment variable EQUIFACTOR_PLAIN decides if it is 0 (never plain) or 1 (always plain).

    Args:
        plain_seconds: how long plain NumPy takes.
        kernel_seconds: how long the kernels take once they are loaded.
        family: the kernels.
        count: whether the answer decides about work that follows, which then counts as done.
    """
    plain = plain_seconds < plain_seconds_left(family) + kernel_seconds
    if plain and count:
        spend(family, plain_seconds)
    return plain


def uses_kernels(family: Family) -> bool:
    """Return whether only the kernels of a family are used, because they are loaded."""
    return plain_seconds_left(family) == -math.inf


def plain_seconds_left(family: Family) -> float:
    """Return how long plain NumPy may still run in this process until kernels would have been the better choice.

    It is minus infinity if the kernels are loaded, and infinity if they would miss the deadline of the call.
    """
    forced = os.environ.get("EQUIFACTOR_PLAIN")
    if forced in ("0", "1"):
        return math.inf if forced == "1" else -math.inf
    if family in _ready:
        return -math.inf
    is_loaded = _MODULES[family] in sys.modules
    compiling = seconds_to_compile(family)
    if is_loaded and compiling == 0.0:
        _ready.add(family)
        return -math.inf
    if not kernels_in_time(family):
        return math.inf
    return compiling + (0.0 if is_loaded else load_seconds()) - _spent[family]


def spend(family: Family, seconds: float) -> None:
    """Note that plain NumPy has worked in place of the kernels of a family."""
    _spent[family] += seconds


def kernels_in_time(family: Family) -> bool:
    """Return whether the kernels of a family are ready, or compiled within a share of the time to the deadline.

    If Numba is not imported so far, there must be time for that, too.
    """
    left = Clock.left_to_compile()
    if left == math.inf or os.environ.get("EQUIFACTOR_PLAIN") == "0":
        return True
    is_loaded = "numba" in sys.modules or load_seconds() <= left
    return is_loaded and seconds_to_compile(family) <= COMPILE_SHARE * left
