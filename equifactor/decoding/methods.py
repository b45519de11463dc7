"""The decoding methods and their settings; `relay(solutions=3)` is the text form of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from equifactor.base.errors import OptionError
from equifactor.base.options import (
    check_options,
    choices,
    format_method,
    option,
    parse_method,
)
from equifactor.decoding.learned_memory import FEATURES, MemoryNetwork

Rule = Literal["min-sum", "sum-product"]
Schedule = Literal["parallel", "serial"]
Osd = Literal["none", "0", "cs"]
_NEVER = 2**62  # A limit that no shot reaches.


@dataclass(frozen=True, kw_only=True)
class DecodingMethod:
    """The settings that all methods share. All methods are based on belief propagation."""

    name = ""

    rule: Rule = option("min-sum", "rule of a check: min-sum, or sum-product, which is exact on trees")
    iterations: int = option(1000, "largest number of iterations of the first leg", low=1)
    schedule: Schedule = option(
        "parallel", "all checks at once (parallel), or one after the other (serial), which needs fewer iterations"
    )
    scale: float = option(1.0, "factor of the answers of min-sum; 0 means 1 - 2^-i in iteration i", low=0, high=1)
    memory: float = option(0.0, "share of the last posterior in the effective prior", low=-1, below=1)
    legs: int = option(0, "largest number of further legs, each with memories drawn at random", low=0)
    leg_iterations: int = option(60, "largest number of iterations of a further leg", low=1)
    solutions: int = option(1, "legs that must meet the syndrome before the lightest of them is taken", low=1)
    restart: bool = option(True, "whether every leg discards all messages, or only a leg after a solution")
    trust_first: bool = option(False, "whether a shot that the first leg decodes is done, regardless of `solutions`")
    low: float = option(-0.24, "smallest memory of a further leg", low=-1, below=1)
    high: float = option(0.66, "largest memory of a further leg", low=-1, below=1)
    osd: Osd = option(
        "none", "ordered statistics for shots that have not converged: none, 0, or cs (single bits and pairs)"
    )
    osd_order: int = option(10, "number of columns among which cs tries all pairs", low=0, high=1000)
    seed: int = option(0, "seed of the memories", low=0)
    link: bool = option(
        False, "whether a code whose detectors have two sides, X and Z, is decoded as parts of its errors"
    )

    def __post_init__(self) -> None:
        check_options(self)
        for low, high in (("low", "high"), ("part_low", "part_high")):
            a, b = getattr(self, low, 0.0), getattr(self, high, 0.0)
            if a > b:
                raise OptionError(f"{self.name}: {low} is {a} and {high} is {b}. {low} must be at most {high}.")

    def limits_of_shots(self) -> tuple[int, int, int]:
        """Return the largest number of legs without progress, the solutions before it counts, and most iterations."""
        return _NEVER, 0, _NEVER

    def weights_of_networks(self) -> NDArray[np.float32]:
        """Return the weights [P, H+1, F+2] of networks that choose memories; P is 0 if memories are drawn at random."""
        return np.zeros((0, 1, len(FEATURES) + 2), np.float32)

    def __str__(self) -> str:
        return format_method(self)


@dataclass(frozen=True, kw_only=True)
class MinSumDecoding(DecodingMethod):
    """Min-sum: a check answers with the least certain of its other bits."""

    name = "min-sum"


@dataclass(frozen=True, kw_only=True)
class SumProductDecoding(DecodingMethod):
    """Sum-product: a check answers exactly, as if its bits were independent."""

    name = "sum-product"
    rule: Rule = option("sum-product", "rule of a check: sum-product, or min-sum")


@dataclass(frozen=True, kw_only=True)
class MemoryDecoding(DecodingMethod):
    """Min-sum with memory: a share of the last posterior replaces a share of the channel's log ratio."""

    name = "memory"
    memory: float = option(0.15, "share of the last posterior in the effective prior", low=-1, below=1)


@dataclass(frozen=True, kw_only=True)
class RelayDecoding(DecodingMethod):
    """Relay: several legs of min-sum, with a memory drawn at random for every bit; the lightest solution is taken."""

    name = "relay"
    iterations: int = option(80, "largest number of iterations of the first leg", low=1)
    memory: float = option(
        0.15, "share of the last posterior in the effective prior, in the first leg", low=-1, below=1
    )
    legs: int = option(300, "largest number of further legs, each with memories drawn at random", low=0)
    solutions: int = option(5, "legs that must meet the syndrome before the lightest of them is taken", low=1)
    link: bool = option(
        True, "whether a code whose detectors have two sides, X and Z, is decoded as parts of its errors"
    )


@dataclass(frozen=True, kw_only=True)
class PooledDecoding(RelayDecoding):
    """Relay whose solutions are put together: where they differ, each cluster of errors is chosen by itself."""

    name = "pooled"
    solutions: int = option(40, "largest number of legs that meet the syndrome, whose errors are put together", low=1)
    patience: int = option(12, "legs in a row that may bring no lighter errors before the shot is done", low=1)
    least: int = option(10, "legs that must meet the syndrome before `patience` ends a shot", low=1)
    penalty: float = option(
        0.6,
        "share by which the weights of the errors found grow in every second leg, to find others, if at least half of "
        "the legs so far have met the syndrome",
        low=0.0,
    )
    part_memory: float = option(0.0, "memory of a part in the first leg", low=-1, below=1)
    part_low: float = option(-0.1, "smallest memory of a part in a further leg", low=-1, below=1)
    part_high: float = option(0.4, "largest memory of a part in a further leg", low=-1, below=1)
    budget: int = option(100_000, "largest number of iterations of a shot, over all legs", low=1)

    def limits_of_shots(self) -> tuple[int, int, int]:
        """Return the largest number of legs without progress, the solutions before it counts, and most iterations."""
        return self.patience, self.least, self.budget


@dataclass(frozen=True, kw_only=True)
class SearchDecoding(PooledDecoding):
    """Pooled first; then a beam search over sets of errors for the shots whose gap is small."""

    name = "search"
    beam: int = option(100, "number of sets of errors that every level of the search keeps", low=1, high=1_000_000)
    doubt: float = option(6.0, "shots with a smaller gap, and those that are not explained, are searched", low=0.0)
    margin: float = option(3.0, "sets that are heavier than the lightest by more than this are dropped", low=0.0)
    sums: bool = option(
        True, "whether observables are those of the likeliest class of errors found, or of the lightest errors"
    )
    greed: float = option(1.3, "factor of the estimated weight of the errors that a set still needs", low=0.0)
    surprise: float = option(1.5, "factor of the estimated weight of checks that errors leave unmet", low=0.0)


@dataclass(frozen=True, kw_only=True)
class ClassDecoding(DecodingMethod):
    """The likeliest flips of observables: exact sums over all sets of errors. Only the setting `width` counts."""

    name = "class"
    width: int = option(20, "largest number of observables and checks whose flips a table holds", low=1, high=28)


@dataclass(frozen=True, kw_only=True)
class LearnedMemoryDecoding(DecodingMethod):
    """Min-sum in which a trained network chooses the memory of every bit, again at the beginning of each leg."""

    name = "learned-memory"
    iterations: int = option(80, "largest number of iterations before memories are chosen for the first time", low=1)
    memory: float = option(
        0.15, "share of the last posterior in the effective prior, in the first leg", low=-1, below=1
    )
    legs: int = option(600, "largest number of further legs, each with new memories", low=0)
    leg_iterations: int = option(20, "largest number of iterations of a further leg", low=1)
    solutions: int = option(10, "legs that must meet the syndrome before the lightest of them is taken", low=1)
    restart: bool = option(False, "whether every leg discards all messages, or only a leg after a solution")
    trust_first: bool = option(True, "whether a shot that the first leg decodes is done, regardless of `solutions`")
    weights: str = option("learned-memory", "the name of shipped weights, or a .safetensors file as `train` writes it")

    def weights_of_networks(self) -> NDArray[np.float32]:
        """Return the weights [1, H+1, F+2] of the trained network."""
        return MemoryNetwork.load(self.weights).weights[None]


@dataclass(frozen=True, kw_only=True)
class BpOsdDecoding(DecodingMethod):
    """Min-sum, then ordered statistics for shots that have not converged."""

    name = "bp-osd"
    iterations: int = option(80, "largest number of iterations", low=1)
    scale: float = option(
        0.9,
        "factor of the answers of min-sum; 0.625 was better on a colour code; 0 means 1 - 2^-i in iteration i",
        low=0,
        high=1,
    )
    osd: Osd = option(
        "cs", "ordered statistics for shots that have not converged: none, 0, or cs (single bits and pairs)"
    )


@dataclass(frozen=True, kw_only=True)
class OptimalDecoding(PooledDecoding):
    """The likeliest errors, proven if time allows: pooled and ordered statistics first, then branch and bound."""

    name = "optimal"
    link: bool = option(
        False, "whether a code whose detectors have two sides, X and Z, is decoded as parts of its errors"
    )
    schedule: Schedule = option(
        "serial", "all checks at once (parallel), or one after the other (serial), which needs fewer iterations"
    )
    solutions: int = option(20, "largest number of legs that meet the syndrome, whose errors are put together", low=1)
    patience: int = option(60, "legs in a row that may bring no lighter errors before the shot is done", low=1)
    osd: Osd = option(
        "cs", "ordered statistics for shots that have not converged: none, 0, or cs (single bits and pairs)"
    )
    solver: str = option("branch", "MAP solver that proves or improves the errors found: branch, auto, toulbar2")
    seconds: float = option(1.0, "time limit of the MAP solver in seconds, for each shot", low=0.0)


METHODS: dict[str, type[DecodingMethod]] = {
    method.name: method
    for method in (
        MinSumDecoding,
        SumProductDecoding,
        MemoryDecoding,
        RelayDecoding,
        PooledDecoding,
        SearchDecoding,
        ClassDecoding,
        LearnedMemoryDecoding,
        BpOsdDecoding,
        OptimalDecoding,
    )
}


def decoding_method(method: str | DecodingMethod, settings: Mapping[str, Any] | None = None) -> DecodingMethod:
    """Return the method of a text such as `relay(legs=300)`, with further settings that override those of the text."""
    return parse_method(method, settings or {}, base=DecodingMethod, find=_class_of, what="decoding method")


def _class_of(name: str) -> type[DecodingMethod]:
    if name.lower() == "fe-nbp":
        raise OptionError(
            'The decoding method fe-nbp is now called learned-memory: write method="learned-memory". '
            "The name fe-nbp belongs to a solver of factor graphs."
        )
    if name.lower() not in METHODS:
        raise OptionError(f"There is no decoding method {name!r}; {choices(name, sorted(METHODS))}.")
    return METHODS[name.lower()]
