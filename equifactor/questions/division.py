"""The k best assignments of a model without a plan that fits: the space is divided below every assignment found.

The best assignment of a part divides the rest of the part: for every free variable, the assignments that agree with it
before this variable and differ there [Nilsson98]. Parts are disjoint. Each is solved as a MAP of its own, and the part
with the best assignment is divided next.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.status import Status, Task
from equifactor.solving.running import estimates_of
from equifactor.solving.solver import SolveContext

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph import FactorGraph
    from equifactor.solving.solver import Solver

_LEAST_SECONDS = 0.1  # Seconds that the MAP of a part gets at least, if as many are left. Chosen by hand.


class Part(NamedTuple):
    """A part of the space and its best assignment; parts are ordered by score, the best first."""

    minus_score: float
    number: int  # decides between equal scores
    states: IntArray  # [V]
    bound: float  # no assignment of the part scores more
    fixed: int  # the number of free variables, in order, whose states are those of `states` in the whole part
    excluded: tuple[int, ...]  # the states that the next free variable does not have in the part


class Division:
    """Assignments in order of their scores. `next_best` returns one after another.

    Args:
        graph: the model, with its evidence.
        method: a solver for MAP. If it proves every answer, the order is proven.
        context: the clock and the seed of the call.
    """

    def __init__(self, graph: FactorGraph, method: Solver, context: SolveContext) -> None:
        self._graph, self._method, self._context = graph, method, context
        self._free = graph.free_vars.tolist()
        self._parts: list[Part] = []
        self._serial = 0
        self._unsolved = -math.inf  # a bound on all scores of parts that were left without an assignment
        self._solve(np.zeros(graph.num_vars, np.int64), 0, (), math.inf, context.clock.left)

    @property
    def upper_bound(self) -> float:
        """A bound on the scores of all assignments that `next_best` has not returned."""
        return max([self._unsolved, *(part.bound for part in self._parts)])

    @property
    def status(self) -> Status | None:
        """Why the search stopped; None if it did not."""
        return self._context.clock.status

    def next_best(self) -> IntArray | None:
        """Return the best assignment [V] that is left; None if there are no more, or the clock stopped."""
        if not self._parts:
            return None
        best = heapq.heappop(self._parts)
        left = self._context.clock.left
        seconds = max(_LEAST_SECONDS, left / max(1, 2 * len(self._free)))
        for n in range(best.fixed, len(self._free)):
            state = int(best.states[self._free[n]])
            excluded = (*best.excluded, state) if n == best.fixed else (state,)
            self._solve(best.states, n, excluded, best.bound, min(seconds, left))
        return best.states

    def _solve(self, states: IntArray, fixed: int, excluded: tuple[int, ...], bound: float, seconds: float) -> None:
        """Solve a part, and keep it if an assignment is possible."""
        graph, clock = self._graph, self._context.clock
        if fixed < len(self._free):
            i = self._free[fixed]
            weights = np.ones(graph.card[i])
            weights[list(excluded)] = 0.0
            if not weights.any():
                return
        elif excluded:
            return
        if clock.stopped:  # Before anything that depends on the size of the graph: it may have thousands of parts.
            self._unsolved = max(self._unsolved, bound)
            return
        if fixed < len(self._free):
            graph = graph.condition({**{j: int(states[j]) for j in self._free[:fixed]}, i: weights})
        context = SolveContext(clock=clock.within(seconds), seed=self._context.seed)
        (found,) = estimates_of(self._method, [graph], Task.MAP, context)
        if found.status is Status.ZERO_PROBABILITY:
            return
        if found.upper_bound is not None:
            bound = min(bound, found.upper_bound)
        score = -math.inf if found.assignment is None else self._graph.log_score(found.assignment)
        if found.assignment is None or score == -math.inf:
            self._unsolved = max(self._unsolved, bound)
            return
        self._serial += 1
        part = Part(-score, self._serial, found.assignment, max(bound, score), fixed, excluded)
        heapq.heappush(self._parts, part)
        self._context.report(self._serial, None, f"best of a part {score:.6g}")
