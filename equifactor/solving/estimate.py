"""What a solver reports for one graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, overload

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
    assignment: IntArray | None = None  # [V] the state of each variable, observed ones included
    lower_bound: float | None = None  # a bound on ln Z, or for MAP on the best log score
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


class LazyEstimates(Sequence[Estimate]):
    """The estimates of many graphs; each is made when somebody looks at it.

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


def impossible() -> Estimate:
    """Return the estimate for a graph all of whose assignments are proven to have probability zero.

    A method that has merely found no possible assignment asks `solvers.elimination.impossibility` first.
    """
    return Estimate(status=Status.ZERO_PROBABILITY, log_z=-math.inf)
