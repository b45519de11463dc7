"""Proven MAP by branch and bound: eliminate variables, bound, find a first assignment, search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import CALL_SECONDS
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.factors.move_model import MoveModel
from equifactor.graph import compile
from equifactor.solvers.duals.stall import LEAST_FALL, STALL_SWEEPS, Stall
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.elimination.shrink import MOST_ENTRIES, ShrunkGraph, has_time_to_shrink, shrink
from equifactor.solvers.search.branch_and_bound import BranchAndBound
from equifactor.solvers.search.local_search import START_PHASES, LocalSearch
from equifactor.solving.estimate import Estimate
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph
    from equifactor.solvers.duals.ascent import VariableAscent


@register("branch")
@dataclass(frozen=True, kw_only=True)
class Branch(GraphSolver):
    """MAP proven by branch and bound: cheap variables are eliminated, and message passing bounds the rest.

    Hybrid best-first search [Allouche15] from the messages of `srmp`. Below a decision, factors are renewed by the
    block minimum of MPLP as far as the change reaches. States that cannot beat the best assignment are ruled out.
    Without a time limit it ends with a proof. Open nodes take up to 200 MB; beyond that the search continues depth
    first.
    """

    tasks = (Task.MAP,)
    exact_on = "all"
    symmetries = frozenset()  # ties between variables are broken by their numbers

    sweeps: int = option(300, "most sweeps of dual ascent before the first node", low=1)
    entries: int = option(
        MOST_ENTRIES, "eliminate variables whose joint table has at most this many entries", low=1, high=4096
    )
    gap: float = option(1e-7, "relative gap between bound and score that counts as optimal", low=0.0)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Return the best assignment, proven unless time runs out; then the best one found, with bounds."""
        return prove(graph, context, sweeps=self.sweeps, entries=self.entries, gap=self.gap)


class Branching:
    """Dual ascent until its bound stalls, and then branch and bound, in single steps.

    The solver `branch` takes these steps one after another. In the portfolio of `auto` they alternate with other
    solvers.

    Args:
        ascent: the dual ascent of one graph.
        stall: decides whether the bound of the ascent has stalled.
        gap: the difference between bound and score, relative to the score, that counts as closed.
        clock: the clock of the call, which stops the search.
    """

    def __init__(self, ascent: VariableAscent, stall: Stall, gap: float, clock: Clock) -> None:
        self.ascent = ascent
        self.stall = stall
        self.gap = gap
        self.clock = clock
        self.sweeps = 0  # number of sweeps made here
        self.swept_bound = -np.inf  # the bound after the last of them
        self.search: BranchAndBound | None = None  # the search, once it has begun

    @property
    def nodes(self) -> int:
        """Return the number of nodes visited."""
        return 0 if self.search is None else self.search.nodes

    def sweep(self) -> float:
        """Sweep once more; return the bound, -inf when no assignment is possible."""
        self.sweeps += 1
        self.swept_bound = self.ascent.sweep()
        self.stall.add(self.swept_bound)
        return self.swept_bound

    def begin(self, states: IntArray, score: float) -> BranchAndBound:
        """Begin a search from the messages as they are now, and from an assignment [V] with its log score."""
        self.search = BranchAndBound(self.ascent, states, score, self.gap)
        return self.search

    def work(self, seconds: float) -> bool:
        """Search for about `seconds`; return whether a better assignment was found."""
        assert self.search is not None
        return self.search.work(seconds, lambda: self.clock.stopped)


def prove(
    graph: FactorGraph, context: SolveContext, *, sweeps: int = 300, entries: int = MOST_ENTRIES, gap: float = 1e-7
) -> Estimate:
    """Return the best assignment, proven unless time runs out; then the best one found, with bounds.

    Args:
        graph: the model.
        context: the clock and the seed of the call.
        sweeps: the most sweeps of dual ascent before the first node.
        entries: variables whose joint table has at most this many entries are eliminated first.
        gap: the difference between bound and score, relative to the score, that counts as closed.
    """
    if context.clock.stopped or not has_time_to_shrink(graph.structure, context.clock):
        return Estimate(status=context.clock.status or Status.TIME_LIMIT)
    shrunk = shrink(graph, entries)
    if shrunk is None:
        return zero_by_exclusion(graph)
    if not shrunk.graph.num_vars:
        return shrunk.optimum()
    if context.clock.stopped:
        return Estimate(status=context.clock.status or Status.TIME_LIMIT)
    branching = _branching(shrunk.graph, gap, context.clock)
    best = _first_assignment(shrunk.graph, branching, sweeps, context)
    if best is None:
        return zero_by_exclusion(graph)
    if context.clock.stopped:  # To begin a search takes as long as several sweeps.
        return _estimate(shrunk, best, branching.swept_bound if branching.sweeps else np.inf, 0, context)
    search = branching.begin(best, shrunk.graph.log_score(best))
    while not search.finished and not context.clock.stopped:
        branching.work(CALL_SECONDS)
        context.report(search.nodes, None, f"gap {search.bound - search.score:.3g}")
    found = _estimate(shrunk, search.best, search.bound, search.nodes, context)
    if not search.finished:
        return found
    return zero_by_exclusion(graph) if found.lower_bound == -np.inf else replace(found, status=Status.OPTIMAL)


def _branching(graph: FactorGraph, gap: float, clock: Clock) -> Branching:
    from equifactor.solvers.duals.ascent import VariableAscent

    return Branching(VariableAscent(compile(graph)), Stall(STALL_SWEEPS - 1, share_of_gap=LEAST_FALL), gap, clock)


def _first_assignment(graph: FactorGraph, branching: Branching, sweeps: int, context: SolveContext) -> IntArray | None:
    """Lower the first bound until it stalls, and improve the decoded assignment; return None if none is possible."""
    best = np.zeros(graph.num_vars, np.int64)
    while branching.sweeps < sweeps and not context.clock.stopped:
        bound = branching.sweep()
        if np.isneginf(bound):
            return None
        if branching.sweeps % STALL_SWEEPS == 0:
            best = max([best, *branching.ascent.candidates(clock=context.clock)], key=graph.log_score)
            left = bound - graph.log_score(best)
            if branching.stall.stalled(left) or left <= branching.gap * abs(bound):
                break
    if context.clock.stopped:
        return best
    local = LocalSearch(MoveModel(branching.ascent.flat), best, context.seed)
    for _ in range(START_PHASES):
        local.step()
    return local.best


def _estimate(shrunk: ShrunkGraph, best: IntArray, bound: float, nodes: int, context: SolveContext) -> Estimate:
    assignment = shrunk.assignment(best)
    score = shrunk.original.log_score(assignment)
    return Estimate(
        status=context.clock.status or Status.TIME_LIMIT,
        assignment=assignment,
        lower_bound=score,
        upper_bound=max(score, bound) if bound < np.inf else None,
        iterations=nodes,
        stats={"nodes": nodes, "variables": shrunk.graph.num_vars, "gap": max(0.0, bound - score)},
    )
