"""The best assignment at a distance from others: a MAP with one constraint for each of the others.

The distance is the number of variables in which two assignments differ. For a binary variable, the constraint counts
one of its states. A variable with more states has an auxiliary variable that tells whether it differs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.status import Status, Task
from equifactor.factors.count import AtLeast
from equifactor.graph import FactorGraph
from equifactor.solving.estimate import Estimate
from equifactor.solving.running import estimates_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.typing import IntArray
    from equifactor.solving.solver import SolveContext, Solver


def best_apart(
    graph: FactorGraph, others: Sequence[IntArray], apart: int, method: Solver, context: SolveContext
) -> Estimate | None:
    """Return the best assignment that differs from each of the others in `apart` variables; None if there is none.

    The assignment of the estimate has further variables behind those of the graph.
    """
    free = graph.free_vars.tolist()
    if len(others) and apart > len(free):
        return None
    if context.clock.stopped:
        return Estimate(status=context.clock.status or Status.TIME_LIMIT)
    extended = _with_distances(graph, free, others, apart)
    (found,) = estimates_of(method, [extended], Task.MAP, context)
    if found.assignment is not None and graph.log_score(found.assignment[: graph.num_vars]) == -np.inf:
        return replace(found, assignment=None, status=Status.TIME_LIMIT)
    return found


def _with_distances(graph: FactorGraph, free: list[int], others: Sequence[IntArray], apart: int) -> FactorGraph:
    """Return the graph with auxiliary variables and with a constraint for each of the other assignments."""
    s = graph.structure
    card: list[int] = s.card.tolist()
    new: list[Any] = []
    for other in others:
        scope, signs = [], []
        for i in free:
            if s.card[i] == 1:
                continue
            if s.card[i] == 2:
                scope.append(i)
                signs.append(bool(other[i] == 0))
                continue
            differs = np.stack((np.arange(s.card[i]) == other[i], np.arange(s.card[i]) != other[i]), axis=1)
            new.append(([i, len(card)], differs.astype(float)))
            scope.append(len(card))
            signs.append(True)
            card.append(2)
        new.append((scope, AtLeast(apart, signs)))
    factors: list[Any] = [(s.scope(a).tolist(), graph.factor(a)) for a in range(s.num_factors)]
    logs = FactorGraph(card, factors, log=True)
    whole = logs.with_factors(new)
    if graph.observed is None:
        return whole
    seen = np.flatnonzero(graph.observed >= 0)
    return whole.condition(dict(zip(seen.tolist(), graph.observed[seen].tolist(), strict=True)))
