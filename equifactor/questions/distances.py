"""The best assignment at a distance from others: a MAP with one constraint for each of the others.

The distance is the number of variables in which two assignments differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.status import Status, Task
from equifactor.factors.distance_constraints import with_distances
from equifactor.solving.estimate import Estimate
from equifactor.solving.running import estimates_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph
    from equifactor.solving.solver import SolveContext, Solver


def best_apart(
    graph: FactorGraph, others: Sequence[IntArray], apart: int, method: Solver, context: SolveContext
) -> Estimate | None:
    """Return the best assignment that differs from each of the others in `apart` variables; None if none exists.

    The assignment of the estimate has further variables behind those of the graph.
    """
    if len(others) and apart > len(graph.free_vars):
        return None
    if context.clock.stopped:
        return Estimate(status=context.clock.status or Status.TIME_LIMIT)
    extended = with_distances(graph, others, apart)
    (found,) = estimates_of(method, [extended], Task.MAP, context)
    if found.assignment is not None and graph.log_score(found.assignment[: graph.num_vars]) == -np.inf:
        return replace(found, assignment=None, status=Status.TIME_LIMIT)
    return found
