"""Checks of the arguments of generators; what does not fit raises `OptionError`."""

from __future__ import annotations

import math

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.base.options import did_you_mean

MAX_ENTRIES = 2**30  # table entries that one call may ask for: 8 GiB of float64; more is likely a typing error


def whole(name: str, value: object, low: int, high: float = math.inf, why: str = "") -> int:
    """The value, which must be a whole number of at least `low` and at most `high`, for the reason given."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < low:
        raise OptionError(f"{name} must be a whole number of at least {low}, found {value!r}")
    if value > high:
        raise OptionError(f"{name} must be at most {high:g}, found {value}; {why}")
    return int(value)


def spin_draws(field_std: object, coupling_std: object, seed: object) -> tuple[float, float, np.random.Generator]:
    """The standard deviations of fields and couplings, and the random numbers to draw them with."""
    rng = np.random.default_rng(whole("seed", seed, 0))
    return real("field_std", field_std), real("coupling_std", coupling_std), rng


def whole_range(name: str, value: object, low: int) -> tuple[int, int]:
    """The lowest and the highest value, from one whole number or a pair of them, of at least `low`."""
    pair = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(pair) != 2:
        raise OptionError(f"{name} must be a number or a pair (low, high), found {value!r}")
    first, last = whole(name, pair[0], low), whole(name, pair[1], low)
    if first > last:
        raise OptionError(f"{name} must be a pair (low, high) with low <= high, found {value!r}")
    return first, last


def real(name: str, value: object, low: float = 0.0, high: float = math.inf) -> float:
    """The value, which must be a finite number in [low, high]."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not low <= value <= high:  # type: ignore[arg-type, operator]
        span = "a finite number" if math.isinf(low) else f"a number of at least {low:g}"
        span += "" if math.isinf(high) else f" and at most {high:g}"
        raise OptionError(f"{name} must be {span}, found {value!r}")
    return float(value)  # type: ignore[arg-type]


def choice(name: str, value: object, valid: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the `valid` words."""
    if value not in valid:
        near = did_you_mean(str(value), valid).rstrip()
        raise OptionError(f"{name} must be one of {', '.join(valid)}, found {value!r}{near and f'; {near}'}")


def number_of_graphs(count: int | None) -> int:
    """How many graphs to draw: one for None, which asks for a graph instead of a list."""
    return 1 if count is None else whole("count", count, 1)


def check_size(entries: int) -> None:
    """Refuse graphs with too many table entries in all, before anything is allocated."""
    if entries > MAX_ENTRIES:
        raise OptionError(
            f"the graphs asked for have about {entries:.2g} table entries in all; at most 2^30 are made in "
            "one call, so ask for smaller or fewer graphs"
        )
