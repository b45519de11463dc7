"""The value of an answer to marginal MAP, computed again: the sum over all variables outside the query."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph

_MEMORY = 4.0  # GiB of tables of a sum: half the memory of a process of the competition.
_SECONDS = 30.0  # Seconds for a sum, which counts for no solver. Chosen by hand.


def sum_bounds(graph: FactorGraph, query: Sequence[int], states: IntArray) -> tuple[float, float]:
    """Return bounds on the log of the sum over all assignments that agree with an answer; they are equal if it fits.

    Args:
        graph: the model with its evidence.
        query: the variables of the query.
        states: [V] the answer; only the states of the query matter.
    """
    from equifactor.questions.solve import solve

    asked = np.asarray(query, np.int64)
    if graph.observed is not None:
        seen = graph.observed[asked] >= 0
        if np.any(graph.observed[asked[seen]] != states[asked[seen]]):
            return -math.inf, -math.inf
        asked = asked[~seen]
    observed = np.full(graph.num_vars, -1)
    observed[asked] = states[asked]
    found = solve(graph.condition(observed), "PR", "auto", memory_limit=_MEMORY, time_limit=_SECONDS)
    if found.status.value == "zero-probability":
        return -math.inf, -math.inf
    low, high = found.lower_bound, found.upper_bound
    return -math.inf if low is None else low, math.inf if high is None else high
