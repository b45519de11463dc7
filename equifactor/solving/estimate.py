"""What a solver reports for one graph."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from equifactor.base.status import Status

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.marginals import Marginals


@dataclass(frozen=True, kw_only=True, eq=False)  # compared by identity: arrays have no single answer to ==
class Estimate:
    """What a solver reports for one graph; `solve` adds the rest and makes it a `Result`."""

    status: Status
    message: str = ""  # a sentence beyond the status, where there is something to say
    marginals: Marginals | None = None
    standard_errors: Marginals | None = None  # of each entry of the marginals, where they are averages over samples
    log_z: float | None = None
    log_z_error: float | None = None  # the standard error of ln Z, where it is an average over samples
    assignment: IntArray | None = None  # [V] the state of each variable, observed ones included
    lower_bound: float | None = None  # a bound on ln Z, or for MAP on the best log score
    upper_bound: float | None = None
    iterations: int | None = None
    stats: dict[str, Any] = field(default_factory=dict)  # what only this solver can tell

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """The object from a dictionary of its fields, in a fifth of the time of the constructor.

        The dictionary must hold `stats` and all fields without a default. A frozen dataclass sets its fields one by
        one and through a detour, which counts for a batch of thousands.
        """
        new = cls.__new__(cls)
        vars(new).update(fields)  # what is left out is found in the class, where the defaults live
        return new


def impossible() -> Estimate:
    """The estimate for a graph whose every assignment is proven to have probability zero.

    A method that has merely found none asks `solvers.elimination.impossibility` first.
    """
    return Estimate(status=Status.ZERO_PROBABILITY, log_z=-math.inf)
