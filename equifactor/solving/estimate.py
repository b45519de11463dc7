"""What a solver reports for one graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from equifactor.base.status import Status

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.marginals import Marginals


@dataclass(frozen=True, kw_only=True, eq=False)  # compared by identity: arrays have no single answer to ==
class Estimate:
    """What a solver reports for one graph; `solve` adds the rest and makes it a `Result`."""

    status: Status
    message: str = ""  # what the status alone does not say; empty if there is nothing to add
    marginals: Marginals | None = None
    standard_errors: Marginals | None = None  # of each entry of the marginals, if a sampler made or judged them
    marginal_errors: Marginals | None = None  # which a learned solver predicts to be exceeded in 10 % of the variables
    log_z: float | None = None
    log_z_error: float | None = None  # the standard error of ln Z, if a sampler made or judged it
    assignment: IntArray | None = None  # [V] states, observed ones included; for MMAP -1 where summed out
    log_score: float | None = None  # for MMAP, the log of the sum at the assignment; None if it is not known exactly
    lower_bound: float | None = None  # a bound on ln Z, or for MAP and MMAP on the best log score
    upper_bound: float | None = None
    iterations: int | None = None
    stats: dict[str, Any] = field(default_factory=dict)  # further facts that are specific to the solver

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """Return the object with the given fields, in a fifth of the time that the constructor takes.

        The dictionary must hold `stats` and all fields without a default. A frozen dataclass sets its fields one by
        one through `object.__setattr__`, which is slow for a batch of thousands.
        """
        new = cls.__new__(cls)
        vars(new).update(fields)  # fields that are left out have their defaults in the class
        return new


MANY = 64  # Graphs of a batch from which estimates are made when somebody looks. Chosen by hand.


class LazyEstimates(Sequence[Estimate]):
    """The estimates of many graphs; each is made when somebody looks at it, from arrays of the batch.

    A solver returns them only if it has checked all answers of the batch: their numbers are finite, and it is known
    that every graph has a possible assignment.
    """

    def __init__(self, count: int, make: Callable[[int], Estimate]) -> None:
        self._count, self.make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, n: int) -> Estimate: ...
    @overload
    def __getitem__(self, n: slice) -> list[Estimate]: ...
    def __getitem__(self, n: int | slice) -> Estimate | list[Estimate]:
        if isinstance(n, slice):
            return [self.make(k) for k in range(*n.indices(self._count))]
        if not -self._count <= n < self._count:
            raise IndexError(n)
        return self.make(n % self._count)

    def map(self, change: Callable[[int, Estimate], Estimate]) -> LazyEstimates:
        """Return the estimates changed by a function of their number and themselves, when somebody looks."""
        make = self.make
        return LazyEstimates(self._count, lambda n: change(n, make(n)))


def in_order(parts: Sequence[tuple[Sequence[int], Sequence[Estimate]]]) -> Sequence[Estimate]:
    """Return the estimates of several batches in the order of their graphs.

    Args:
        parts: the numbers of the graphs of each batch, and their estimates.
    """
    count = sum(len(numbers) for numbers, _ in parts)
    if not all(isinstance(estimates, LazyEstimates) for _, estimates in parts):
        found: list[Estimate] = [None] * count  # type: ignore[list-item]
        for numbers, estimates in parts:
            for n, estimate in zip(numbers, estimates, strict=True):
                found[n] = estimate
        return found
    place = np.empty((count, 2), np.int64)  # the batch of each graph, and its number there
    for k, (numbers, _) in enumerate(parts):
        place[numbers, 0], place[numbers, 1] = k, np.arange(len(numbers))
    return LazyEstimates(count, lambda n: parts[place[n, 0]][1][int(place[n, 1])])


def impossible() -> Estimate:
    """Return the estimate for a graph all of whose assignments are proven to have probability zero.

    A method that has merely found no possible assignment asks `solvers.elimination.impossibility` first.
    """
    return Estimate(status=Status.ZERO_PROBABILITY, log_z=-math.inf)
