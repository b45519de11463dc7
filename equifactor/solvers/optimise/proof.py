"""Branch and bound from end to end: eliminate, bound, find a first assignment, search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph import compile
from equifactor.graph.search_model import SearchModel
from equifactor.result import Estimate, Status, impossible
from equifactor.solvers.elimination.shrink import MOST_ENTRIES, ShrunkGraph, shrink
from equifactor.solvers.optimise.annealing import LocalSearch
from equifactor.solvers.optimise.ascent import VariableAscent
from equifactor.solvers.optimise.branch_and_bound import BranchAndBound

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.solver import SolveContext

_STINT = 0.1  # seconds between two reports
_PHASES = 10  # of the local search that makes the first assignment
_STALL = 20  # sweeps over which the first bound has to fall by ...
_LEAST_FALL = 1e-4  # ... this share of the gap


def prove(
    graph: FactorGraph, context: SolveContext, *, sweeps: int = 300, entries: int = MOST_ENTRIES, gap: float = 1e-7
) -> Estimate:
    """The best assignment, proven unless time runs out; then the best one found, and bounds.

    Args:
        graph: the model.
        context: clock and seed of the call.
        sweeps: most sweeps of dual ascent before the first node.
        entries: variables whose joint table has no more entries are eliminated before.
        gap: difference between bound and score, relative to the score, that counts as none.
    """
    if context.clock.stopped:
        return Estimate(status=context.clock.status or Status.TIME_LIMIT)
    shrunk = shrink(graph, entries)
    if shrunk is None:
        return impossible()
    if not shrunk.graph.num_vars:
        return shrunk.optimum()
    ascent = VariableAscent(compile(shrunk.graph))
    best = np.zeros(shrunk.graph.num_vars, np.int64)
    falls: list[float] = []
    while len(falls) < sweeps and not context.clock.stopped:
        falls.append(ascent.sweep())
        if np.isneginf(falls[-1]):
            return impossible()
        if len(falls) % _STALL == 0:
            best = max([best, *ascent.candidates()], key=shrunk.graph.log_score)
            left = falls[-1] - shrunk.graph.log_score(best)
            if falls[-_STALL] - falls[-1] <= _LEAST_FALL * left or left <= gap * abs(falls[-1]):
                break
    local = LocalSearch(SearchModel(ascent.flat), best, context.seed)
    for _ in range(0 if context.clock.stopped else _PHASES):
        local.step()
    search = BranchAndBound(ascent, local.best, shrunk.graph.log_score(local.best), gap)
    while not search.finished and not context.clock.stopped:
        search.work(_STINT, lambda: context.clock.stopped)
        context.report(search.nodes, None, f"gap {search.bound - search.score:.3g}")
    return _estimate(shrunk, search, context)


def _estimate(shrunk: ShrunkGraph, search: BranchAndBound, context: SolveContext) -> Estimate:
    assignment = shrunk.assignment(search.best)
    score = shrunk.original.log_score(assignment)
    if search.finished and np.isneginf(score):
        return impossible()
    return Estimate(
        status=Status.OPTIMAL if search.finished else context.clock.status or Status.TIME_LIMIT,
        assignment=assignment,
        lower_bound=score,
        upper_bound=max(score, search.bound),
        iterations=search.nodes,
        stats={"nodes": search.nodes, "variables": shrunk.graph.num_vars, "gap": max(0.0, search.bound - score)},
    )
