"""The methods of decoding and their settings; `relay(solutions=3)` is one as text."""

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


@dataclass(frozen=True, kw_only=True)
class DecodingMethod:
    """Settings that all methods by belief propagation share."""

    name = ""

    rule: Rule = option("min-sum", "what a check answers: min-sum, or sum-product, which is exact on trees")
    iterations: int = option(1000, "the largest number of iterations, of the first leg where there are several", low=1)
    schedule: Schedule = option("parallel", "all checks at once, or one after the other (serial), which needs fewer")
    scale: float = option(1.0, "factor of the answers of min-sum; 0 stands for 1 - 2^-i in iteration i", low=0, high=1)
    memory: float = option(0.0, "share of the last posterior in the channel's word", low=-1, below=1)
    legs: int = option(0, "how often a shot is started again with memories drawn at random", low=0)
    leg_iterations: int = option(60, "the largest number of iterations of such a leg", low=1)
    solutions: int = option(1, "legs that meet the syndrome before the lightest of them is taken", low=1)
    restart: bool = option(True, "whether every leg forgets all messages, or only one after a solution")
    trust_first: bool = option(False, "whether a shot that the first leg settles is done, whatever `solutions` says")
    low: float = option(-0.24, "the smallest memory of a leg", low=-1, below=1)
    high: float = option(0.66, "the largest memory of a leg", low=-1, below=1)
    osd: Osd = option("none", "ordered statistics for shots that have not converged: none, 0, or cs (pairs)")
    osd_order: int = option(10, "pairs among so many columns are tried by cs", low=0, high=1000)
    seed: int = option(0, "of the memories", low=0)

    def __post_init__(self) -> None:
        check_options(self)
        if self.low > self.high:
            raise OptionError(f"{self.name}: low is {self.low} and high {self.high}; low must not be above high")

    def weights_of_networks(self) -> NDArray[np.float32]:
        """[P, H+1, F+2] of networks that choose the memories of legs; P is 0 where they are drawn from an interval."""
        return np.zeros((0, 1, len(FEATURES) + 2), np.float32)

    def __str__(self) -> str:
        return format_method(self)


@dataclass(frozen=True, kw_only=True)
class MinSumDecoding(DecodingMethod):
    """Min-sum: a check answers with the least sure of its other bits."""

    name = "min-sum"


@dataclass(frozen=True, kw_only=True)
class SumProductDecoding(DecodingMethod):
    """Sum-product: the exact answer of a check, if its bits were independent."""

    name = "sum-product"
    rule: Rule = option("sum-product", "what a check answers: sum-product, or min-sum")


@dataclass(frozen=True, kw_only=True)
class MemoryDecoding(DecodingMethod):
    """Min-sum with memory: a part of the last posterior takes the place of the channel's word."""

    name = "memory"
    memory: float = option(0.15, "share of the last posterior in the channel's word", low=-1, below=1)


@dataclass(frozen=True, kw_only=True)
class RelayDecoding(DecodingMethod):
    """Relay: leg after leg of min-sum whose bits have memories of their own, drawn at random; the lightest wins."""

    name = "relay"
    iterations: int = option(80, "the largest number of iterations of the first leg", low=1)
    memory: float = option(0.15, "share of the last posterior in the channel's word, in the first leg", low=-1, below=1)
    legs: int = option(300, "how often a shot is started again with memories drawn at random", low=0)
    solutions: int = option(5, "legs that meet the syndrome before the lightest of them is taken", low=1)


@dataclass(frozen=True, kw_only=True)
class LearnedMemoryDecoding(DecodingMethod):
    """Min-sum in which a trained network chooses the memory of every bit, again at the beginning of each leg."""

    name = "learned-memory"
    iterations: int = option(80, "iterations before memories are chosen for the first time", low=1)
    memory: float = option(0.15, "share of the last posterior in the channel's word until then", low=-1, below=1)
    legs: int = option(600, "how often memories are chosen anew", low=0)
    leg_iterations: int = option(20, "iterations between two choices", low=1)
    solutions: int = option(10, "legs that meet the syndrome before the lightest of them is taken", low=1)
    restart: bool = option(False, "whether messages are forgotten at each choice, or only after a solution")
    trust_first: bool = option(True, "whether a shot that the first leg settles is done, whatever `solutions` says")
    weights: str = option("learned-memory", "the name of shipped weights, or a .safetensors file as `train` writes it")

    def weights_of_networks(self) -> NDArray[np.float32]:
        """[1, H+1, F+2] of the trained network."""
        return MemoryNetwork.load(self.weights).weights[None]


@dataclass(frozen=True, kw_only=True)
class BpOsdDecoding(DecodingMethod):
    """Min-sum, then ordered statistics where it has not converged."""

    name = "bp-osd"
    iterations: int = option(80, "the largest number of iterations", low=1)
    osd: Osd = option("cs", "ordered statistics for shots that have not converged: none, 0, or cs (pairs)")


@dataclass(frozen=True, kw_only=True)
class OptimalDecoding(RelayDecoding):
    """The likeliest errors, proven where time allows: relay and ordered statistics first, then branch and bound."""

    name = "optimal"
    schedule: Schedule = option("serial", "all checks at once, or one after the other (serial), which needs fewer")
    solutions: int = option(10, "legs that meet the syndrome before the lightest of them is taken", low=1)
    osd: Osd = option("cs", "ordered statistics for shots that have not converged: none, 0, or cs (pairs)")
    solver: str = option("branch", "the solver of MAP that proves or improves it: branch, auto, toulbar2")
    seconds: float = option(1.0, "the longest time for that, for each shot", low=0.0)


METHODS: dict[str, type[DecodingMethod]] = {
    method.name: method
    for method in (
        MinSumDecoding,
        SumProductDecoding,
        MemoryDecoding,
        RelayDecoding,
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
        raise OptionError(f"there is no decoding method {name!r}; {choices(name, sorted(METHODS))}")
    return METHODS[name.lower()]
