"""Checks of the arguments of generators; wrong arguments raise `OptionError`."""

from __future__ import annotations

import math

import numpy as np

from equifactor.base.argument_types import is_real
from equifactor.base.errors import OptionError, brief
from equifactor.base.options import did_you_mean

# The number of table entries that one call may create: 8 GiB of float64. A larger request is probably a typing error.
MAX_ENTRIES = 2**30


def whole(name: str, value: object, low: int, high: float = math.inf, why: str = "") -> int:
    """Return the value if it is a whole number from `low` to `high`; `why` explains the upper limit in the error."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, (bool, np.timedelta64)) or value < low:
        raise OptionError(f"{name} must be a whole number of at least {low}, found {brief(value)}.")
    if value > high:
        raise OptionError(f"{name} must be at most {high:g}, found {value}. {why}")
    return int(value)


def spin_draws(field_std: object, coupling_std: object, seed: object) -> tuple[float, float, np.random.Generator]:
    """Return the checked standard deviations of fields and couplings, and the generator of their random numbers."""
    rng = np.random.default_rng(whole("seed", seed, 0))
    return real("field_std", field_std), real("coupling_std", coupling_std), rng


def whole_range(name: str, value: object, low: int) -> tuple[int, int]:
    """Return the lowest and highest value, from one whole number or a pair (low, high), of at least `low`."""
    pair = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(pair) != 2:
        raise OptionError(f"{name} must be a whole number or a pair (low, high), found {value!r}.")
    first, last = (whole(name, number, low, 2**31) for number in pair)
    if first > last:
        raise OptionError(f"{name} must be a pair (low, high) with low <= high, found {value!r}.")
    return first, last


def real(name: str, value: object, low: float = 0.0, high: float = math.inf) -> float:
    """Return the value if it is a finite number in [low, high]."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool) and is_real(value)
    number = number and not (isinstance(value, int) and abs(value) >= 2**63)  # arrays of numbers hold smaller ones
    if not number or not math.isfinite(value) or not low <= value <= high:  # type: ignore[arg-type, operator]
        span = "a finite number" if math.isinf(low) else f"a number of at least {low:g}"
        span += "" if math.isinf(high) else f" and at most {high:g}"
        raise OptionError(f"{name} must be {span}, found {brief(value)}.")
    return float(value)  # type: ignore[arg-type]


def choice(name: str, value: object, valid: tuple[str, ...]) -> None:
    """Raise `OptionError` if the value is not one of the `valid` words."""
    if not isinstance(value, str) or value not in valid:
        near = did_you_mean(value, valid).rstrip() if isinstance(value, str) else ""
        raise OptionError(f"{name} must be one of {', '.join(valid)}, found {brief(value)}{near and f'; {near}'}")


def truth(name: str, value: object) -> bool:
    """Return the value if it is True or False, or 1 or 0."""
    if not isinstance(value, (bool, np.bool_, int)) or value not in (0, 1):
        raise OptionError(f"{name} must be True or False, found {brief(value)}.")
    return bool(value)


def number_of_graphs(count: int | None) -> int:
    """Return the number of graphs to draw; None asks for one graph instead of a list."""
    return 1 if count is None else whole("count", count, 1)


def check_size(entries: int) -> None:
    """Raise `OptionError` if the graphs have too many table entries in total, before anything is allocated."""
    if entries > MAX_ENTRIES:
        raise OptionError(
            f"The graphs would have about {min(entries, 2**1000):.2g} table entries in total, but one call makes at "
            "most 2^30 entries. Ask for smaller or fewer graphs."
        )
