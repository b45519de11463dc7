"""Marginal MAP in `auto`: sums that fit come first; then a MAP with proofs, or a search between certified bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.budget import GIB, LARGEST_LOG, Budget
from equifactor.base.clock import Clock, WorkClock
from equifactor.base.status import Status, Task
from equifactor.factors.lowered_graph import lower
from equifactor.graph.joined_factors import join_factors
from equifactor.solvers.auto.marginal_search import BlockAscent
from equifactor.solvers.auto.query_branching import QueryBranching
from equifactor.solvers.auto.query_starts import MAPS, further_starts, starts_by_map
from equifactor.solvers.bounds.upper_side import UpperSide
from equifactor.solvers.elimination.impossibility import proven_impossible
from equifactor.solvers.elimination.marginal_map import QueryProblem, query_problem
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.running import estimates_of

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph
    from equifactor.solvers.auto.chooser import Auto
    from equifactor.solving.solver import SolveContext

_SUM_BITS = 18.0  # log2 of the largest table of a sum that leaves a MAP. Chosen by hand.
# The same before a search: larger tables would make the sums at a fixed query dearer. Grids of 20 x 20 with 27 query
# variables had no order within 2^24 entries with 6, and one within 2^21 with 0.
_SEARCH_BITS = 3.0
_START_SHARE = 0.15  # The share of the time for the assignment that a search begins with. Chosen by hand.
# The share of the time left for a second try, if the first one had no time to find an assignment. Chosen by hand.
_SECOND_SHARE = 0.5
_BOUND_SHARE = 0.15  # The share of the time for the upper bound. Chosen by hand.
_PATIENCE = 1.0  # Steps for each query variable without a better answer, after which an ascent has ended.
_IDLE_SHARE = 0.1  # The share of blocks of the time if all ascents have ended. Chosen by hand.
_JOINING = 4e-4  # Seconds of the time left for each factor, with which factors are joined: 5 % of the time.
_NO_QUERY = 1e-3  # The weight of a maximum in the upper bound: a sum of this power. It loses 0.001 nats per variable.
_MOST_STEPS = 4000  # Most steps of a search without a time limit.


def best_of_query(graph: FactorGraph, method: Auto, context: SolveContext) -> Estimate:
    """Return the marginal MAP of a graph with factors of any kind; `context.query` has its variables."""
    assert context.query is not None
    lowered = lower(graph)
    found = query_problem(lowered.graph, context.query, _SUM_BITS, context.clock)
    if isinstance(found, QueryProblem) and not found.is_map:
        found = query_problem(lowered.graph, context.query, _SEARCH_BITS, context.clock)
    if found is None:
        return Estimate(status=context.clock.status or Status.TIME_LIMIT)
    if isinstance(found, bool):
        return impossible()
    if found.is_map:
        (best,) = estimates_of(method, [found.graph], Task.MAP, replace(context, query=None))
        if best.assignment is None:
            return replace(best, message=f"All sums were made first. {best.message}")
        stats: dict[str, Any] = {"chosen": "sums, then MAP"}
        answer = lowered.estimate(found.estimate(best))
        return replace(answer, stats={**answer.stats, **stats}, message=f"All sums were made first. {best.message}")
    return lowered.estimate(_search(found, method, context))


def _search(problem: QueryProblem, method: Auto, context: SolveContext) -> Estimate:
    """Return the best answer of a search in the time left, between certified bounds."""
    clock = context.clock
    if clock.left == math.inf:
        clock = clock.within(method.seconds)
    if problem.graph.num_factors * _JOINING < clock.left:
        problem = replace(problem, graph=join_factors(problem.graph))
    graph = problem.graph
    branching = QueryBranching.where_it_fits(graph, problem.is_query, clock, method.gap, method.memory_limit * GIB)
    if branching is not None:
        branching.step()
        if branching.finished:
            return _proven(problem, branching, branching.states)
        upper = branching.bound
    else:
        upper = upper_bound(problem, replace(context, clock=clock.within(_BOUND_SHARE * clock.left)))
    if upper == -math.inf:
        return impossible()
    best = Estimate(status=Status.TIME_LIMIT)
    for share in (_START_SHARE, _SECOND_SHARE):
        if best.assignment is None and best.status is not Status.ZERO_PROBABILITY:
            own = share * clock.left
            start = replace(context, clock=clock.within(own), query=None)
            (best,) = estimates_of(replace(method, seconds=own), [graph], Task.MAP, start)
    if best.status is Status.ZERO_PROBABILITY or (best.assignment is None and proven_impossible(graph, clock)):
        return impossible()
    states = np.zeros(graph.num_vars, np.int64) if best.assignment is None else best.assignment
    context = replace(context, clock=clock)
    search = BlockAscent(graph, problem.is_query, states, context)
    starts = further_starts(graph, method, context) if len(search.query) else iter(())
    ascents = _Ascents(search, starts, starts_by_map(graph, method, context, 1 + MAPS))

    def is_proven() -> bool:
        return not len(search.query) or upper - ascents.score <= method.gap * max(1.0, abs(ascents.score))

    while (search.possible or branching) and not clock.stopped and search.steps < _MOST_STEPS and not is_proven():
        if branching is not None and (not search.possible or ascents.waits):
            branching.offer(ascents.states, ascents.score)
            ascents.others -= clock.seconds
            branching.step()
            ascents.others += clock.seconds
            upper = min(upper, branching.bound)
            ascents.note(branching.states, branching.score)
            if branching.finished:
                return _proven(problem, branching, ascents.states)
        else:
            ascents.seconds -= clock.seconds
            ascents.step()
            ascents.seconds += clock.seconds
        context.report(search.steps, None, f"{ascents.score:.6g} <= best <= {upper:.6g}")
    search.begin(ascents.states, ascents.score)
    answer = _answer(problem, search, upper, context)
    return replace(answer, status=Status.OPTIMAL) if search.possible and is_proven() else answer


class _Ascents:
    """Ascents over blocks from several starts: the best start first, another one where an ascent brings nothing.

    Args:
        search: an ascent at its start.
        starts: further assignments to compare before the first step.
        more: assignments for later, without end; between two of them, the best ascent goes on.
    """

    def __init__(self, search: BlockAscent, starts: Iterator[IntArray], more: Iterator[IntArray]) -> None:
        self._search, self._starts, self._more = search, starts, more
        self._waiting: list[tuple[float, IntArray]] = []  # the starts that have not been tried, the best one last
        self.states, self.score = search.states.copy(), search.score  # the best ones so far
        self._idle = 0  # steps since the last better answer of this ascent
        self._ended = False  # whether the ascents of the first starts have ended
        self._renews = False  # whether the last start was a new one
        self.seconds = self.others = 0.0  # the time of these ascents, and of the search over the query

    @property
    def waits(self) -> bool:
        """Whether the search over the query is next: it gets the same time, and most of it if ascents have ended."""
        return self.others <= self.seconds / (_IDLE_SHARE if self._ended else 1.0)

    def note(self, states: IntArray, score: float) -> None:
        """Take over a better answer."""
        if score > self.score:
            self.states, self.score = states.copy(), score

    def step(self) -> None:
        """Look at one more start, or make one step of the ascent."""
        search, start = self._search, next(self._starts, None)
        if start is not None:
            other = (search.value_of(start), start)
            if other[0] > search.score:
                own = (search.score, search.states)
                self._go_on(other)
                other = own
            if other[0] > -math.inf:
                self._waiting = sorted([*self._waiting, other], key=lambda found: found[0])
            return
        self._idle = 0 if search.step() else self._idle + 1
        self.note(search.states, search.score)
        if self._idle > _PATIENCE * len(search.query):
            self._go_on(self._waiting.pop() if self._waiting else self._next())

    def _next(self) -> tuple[float, IntArray]:
        """Return the best answer and a new start in turn."""
        self._ended = True
        self._renews = not self._renews
        if not self._renews:
            return self.score, self.states
        start = next(self._more)
        return self._search.value_of(start), start

    def _go_on(self, found: tuple[float, IntArray]) -> None:
        score, states = found
        self._search.begin(states, score)
        self._idle = 0
        self.note(states, score)


def _proven(problem: QueryProblem, branching: QueryBranching, states: IntArray) -> Estimate:
    """Return the best answer of a search over the query that has ended."""
    score = branching.score
    if score == -math.inf:
        return impossible()
    stats = {**problem.stats, "chosen": "sums, then search over the query", "nodes": branching.nodes}
    return Estimate(
        status=Status.OPTIMAL, assignment=problem.assignment(states), log_score=score, lower_bound=score,
        upper_bound=branching.bound, stats=stats, iterations=branching.nodes,
        message="The query was searched between certified bounds until they met.",
    )  # fmt: skip


def _answer(problem: QueryProblem, search: BlockAscent, upper: float, context: SolveContext) -> Estimate:
    """Return what a search has found."""
    states: IntArray = search.states
    high = upper if upper < math.inf else None
    stats = {**problem.stats, "chosen": "sums, then block search", "steps": search.steps}
    ended = context.clock.status or Status.TIME_LIMIT
    if not math.isfinite(search.score):
        why = "Sums at a fixed query do not fit" if not search.possible else "No possible assignment was found"
        return Estimate(
            status=ended, assignment=problem.assignment(states) if not search.possible else None, upper_bound=high,
            stats=stats, message=f"{why}, so the value of the answer is not known.",
        )  # fmt: skip
    return Estimate(
        status=ended, assignment=problem.assignment(states), log_score=search.score, lower_bound=search.score,
        upper_bound=None if high is None else max(high, search.score), stats=stats, iterations=search.steps,
        message="Blocks of query variables were solved exactly. The score is the exact sum at the answer.",
    )  # fmt: skip


def upper_bound(problem: QueryProblem, context: SolveContext) -> float:
    """Return a certified bound on the log of the best sum, by mini-buckets with powered sums close to maxima.

    Maxima and sums may change places in an upper bound, so every elimination order will do.
    """
    graph = problem.graph
    if np.any((np.abs(graph.log_phi) > LARGEST_LOG) & (graph.log_phi > -np.inf)):
        return math.inf
    total = np.where(problem.is_query, _NO_QUERY, 1.0)
    clock: Clock = WorkClock(context.clock.left, context.clock)
    upper = UpperSide(graph, math.inf, 10_000, context.seed, Budget(clock, memory=0.5 * GIB), total)
    while not upper.ladder.finished and not clock.stopped and upper.best > -math.inf:
        upper.ladder.advance()
    return upper.best
