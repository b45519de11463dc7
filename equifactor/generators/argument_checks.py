"""What all generators share: checks of their arguments, and many graphs from one array of log tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from equifactor.errors import OptionError
from equifactor.graph.factor_graph import FactorGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.graph.structure import Structure

MAX_ENTRIES = 2**30  # table entries of one call: 8 GiB of float64, above which a zero too many is likely


def whole(name: str, value: object, low: int) -> int:
    """A whole number that is at least `low`; raises `OptionError` otherwise."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < low:
        raise OptionError(f"{name} must be a whole number of at least {low}, found {value!r}")
    return int(value)


def whole_range(name: str, value: object, low: int) -> tuple[int, int]:
    """Lowest and highest value, from one number or a pair; raises `OptionError` otherwise."""
    pair = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(pair) != 2:
        raise OptionError(f"{name} must be a number or a pair (low, high), found {value!r}")
    first, last = whole(name, pair[0], low), whole(name, pair[1], low)
    if first > last:
        raise OptionError(f"{name} must be a pair (low, high) with low <= high, found {value!r}")
    return first, last


def real(name: str, value: object, low: float = 0.0, high: float = math.inf) -> float:
    """A finite number in [low, high]; raises `OptionError` otherwise."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not low <= value <= high:  # type: ignore[arg-type, operator]
        span = "a finite number" if math.isinf(low) else f"a number of at least {low:g}"
        span += "" if math.isinf(high) else f" and at most {high:g}"
        raise OptionError(f"{name} must be {span}, found {value!r}")
    return float(value)  # type: ignore[arg-type]


def choice(name: str, value: object, valid: tuple[str, ...]) -> None:
    """One of a few words; raises `OptionError` otherwise."""
    if value not in valid:
        raise OptionError(f"{name} must be one of {', '.join(valid)}, found {value!r}")


def number_of_graphs(count: int | None) -> int:
    """How many graphs to draw: `None` (one graph, not a list) draws one."""
    return 1 if count is None else whole("count", count, 1)


def check_size(entries: int) -> None:
    """Refuse what cannot fit before anything is allocated."""
    if entries > MAX_ENTRIES:
        raise OptionError(
            f"the graphs asked for have about {entries:.2g} table entries in all; at most 2^30 are made in "
            "one call, so ask for smaller or fewer graphs"
        )


def one_or_many(
    structure: Structure, log_phi: NDArray[np.float64], stem: str, count: int | None
) -> FactorGraph | list[FactorGraph]:
    """Graphs that share one structure from their log tables [N, T]: views of the rows, nothing is copied."""
    log_phi.flags.writeable = False
    graphs = [FactorGraph.trusted(structure, row, None, f"{stem}-{i}") for i, row in enumerate(log_phi)]
    return graphs[0] if count is None else graphs
