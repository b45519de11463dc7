"""Assignments to begin a search for a marginal MAP with: each way is the best one on some models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.status import Task
from equifactor.solving.registry import parse_solver
from equifactor.solving.running import estimates_of

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.solvers.auto.chooser import Auto
    from equifactor.solving.solver import SolveContext

# Solvers for marginals, whose most probable states are a start. On five models of the tuning half, one of them was
# better than MAP on one, by 6.6 in log10.
_MARGINALS = ("bp(damping=0.5, iterations=100)", "meanfield")
_SHARE = 0.03  # The share of the time for each start. Chosen by hand.
MAPS = 2  # Further assignments of MAP before the first ascent, from other seeds. Chosen by hand.


def further_starts(graph: FactorGraph, method: Auto, context: SolveContext) -> Iterator[IntArray]:
    """Yield assignments [v]: the most probable states by marginals, then those of MAP from other seeds."""
    own = _SHARE * context.clock.left
    for text in _MARGINALS:
        (found,) = estimates_of(parse_solver(text), [graph], Task.MAR, _within(context, own, context.seed))
        if found.marginals is not None:
            yield np.array([int(p.argmax()) for p in found.marginals], np.int64)
    yield from islice(starts_by_map(graph, method, context, 1), MAPS)


def starts_by_map(graph: FactorGraph, method: Auto, context: SolveContext, first: int) -> Iterator[IntArray]:
    """Yield assignments [v] of MAP without end, from the seeds that follow the seed of the call by `first` or more."""
    own = _SHARE * context.clock.left
    while True:
        there = _within(context, own, context.seed + first)
        (best,) = estimates_of(replace(method, seconds=own), [graph], Task.MAP, there)
        first += 1
        yield np.zeros(graph.num_vars, np.int64) if best.assignment is None else best.assignment


def _within(context: SolveContext, seconds: float, seed: int) -> SolveContext:
    return replace(context, clock=context.clock.within(seconds), query=None, seed=seed)
