"""Best-first search over the query of a marginal MAP, between bounds by mixed elimination [Park03].

A node fixes some query variables. Its bound is an elimination with maxima over the rest of the query, some of which
come before sums. The variables that come first are fixed first, so the bound becomes exact long before all are fixed.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import FLOAT_BYTES, GIB
from equifactor.solvers.auto.marginal_search import at_states
from equifactor.solvers.elimination.mixed_elimination import MixedPlan, plan_mixed
from equifactor.solvers.elimination.orders import Order, PlanningLimits, best_order

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.reduction import ReducedGraph
    from equifactor.graph.structure import Structure

_BITS = 25.0  # log2 of the entries of the largest table; messages are overwritten once they are read.
_MOST_ENTRIES = 2.0**30  # Table entries of a pass, about a second.
_WORK = 5e6  # List operations of planning for each second that is left, 5 % of the time. Chosen by hand.
_MOVE_SHARE = 0.05  # The share of the time for moves in an order. Chosen by hand.
_PASS_SHARE = 0.02  # The share of the time that one pass may take. Chosen by hand.
_SECONDS = 1e-9  # Reference seconds for a table entry of a pass.
# Reference seconds for a variable of the graph and one of the query, to move the latter in the order, and in a pass.
_MOVE_SECONDS = 1e-6


class _QueryLevel(NamedTuple):
    """What all nodes that fix the same variables share."""

    plan: MixedPlan
    own: IntArray  # [v] the numbers in the graph of the variables that are not fixed


class QueryBranching:
    """The search, node by node. `bound` is always a certified upper bound, up to the gap that counts as closed.

    Args:
        graph: a graph of tables without observed variables.
        is_query: [v] whether a variable is maximised over.
        root: the plan of the root.
        clock: the clock of the call.
        gap: the difference between bound and score, relative to the score, that counts as closed.
        memory: bytes of the tables of a pass.
    """

    def __init__(
        self, graph: FactorGraph, is_query: BoolArray, root: MixedPlan, clock: Clock, gap: float, memory: float = GIB
    ) -> None:
        self.graph, self.is_query, self.clock, self.gap, self._memory = graph, is_query, clock, gap, memory
        self.score, self.states = -math.inf, np.zeros(graph.num_vars, np.int64)
        self.nodes = 0
        self._dropped = -math.inf  # The highest bound of nodes that were dropped because their gap counts as closed.
        self._most_entries = _most_entries(clock)
        self._levels = [_QueryLevel(root, np.arange(graph.num_vars))]
        self._fixed: list[int] = []  # the variable that each level but the root fixes in addition
        self._open: list[tuple[float, tuple[int, ...]]] = [(-math.inf, ())]  # a heap of minus bounds and states

    @classmethod
    def where_it_fits(
        cls, graph: FactorGraph, is_query: BoolArray, clock: Clock, gap: float, memory: float = GIB
    ) -> QueryBranching | None:
        """Return the search if the passes of its bounds fit in memory, and in a small share of the time."""
        if _MOVE_SECONDS * graph.num_vars * float(is_query.sum()) > _MOVE_SHARE * clock.left:
            return None
        limits = PlanningLimits(message=2.0**_BITS, work=_WORK * clock.left)
        order = best_order(graph.structure, limits)
        if not isinstance(order, Order):
            return None
        most = _most_entries(clock)
        plan = _plan_within(memory, graph.structure, order.variables, is_query, most)
        return cls(graph, is_query, plan, clock, gap, memory) if _fits(plan, memory, most) else None

    @property
    def bound(self) -> float:
        """The upper bound on the log of the best sum."""
        return max(self.score, self._dropped, -self._open[0][0] if self._open else -math.inf)

    @property
    def finished(self) -> bool:
        """Whether the best sum is known; it is zero if the score is -inf."""
        return not self._open

    def offer(self, states: IntArray, score: float) -> None:
        """Take over the states [v] of a better answer."""
        if score > self.score:
            self.score, self.states = score, states.copy()

    def step(self) -> None:
        """Expand the open node with the highest bound; the root is evaluated first."""
        bound, fixed = heapq.heappop(self._open)
        if not fixed and bound == -math.inf:
            self._evaluate(fixed, math.inf)
            return
        if not self._worthwhile(-bound):
            self._dropped = max(self._dropped, -bound)  # All others have lower bounds.
            self._open = []
            return
        self._level(len(fixed) + 1)
        card = int(self.graph.card[self._fixed[len(fixed)]])
        for x in range(card):
            if not self._evaluate((*fixed, x), -bound):
                heapq.heappush(self._open, (bound, fixed))
                return

    def _worthwhile(self, bound: float) -> bool:
        if self.score == -math.inf:
            return bound > -math.inf
        return bound > self.score + self.gap * max(1.0, abs(self.score))

    def _evaluate(self, fixed: tuple[int, ...], above: float) -> bool:
        """Bound a node, and keep it if it may hold a better answer; return False when the clock stopped the work."""
        level = self._levels[len(fixed)]
        found = level.plan.run(self._tables(fixed), self.clock)
        if found is None:
            if not fixed:
                heapq.heappush(self._open, (-math.inf, fixed))
            return False
        self.nodes += 1
        if found.states is not None:
            states = self.states.copy()
            states[level.own] = found.states
            states[self._fixed[: len(fixed)]] = fixed
            self.offer(np.where(self.is_query, states, 0), found.log_value)
        elif self._worthwhile(found.log_value):
            heapq.heappush(self._open, (-min(above, found.log_value), fixed))
        else:
            self._dropped = max(self._dropped, found.log_value)
        return True

    def _given(self, fixed: tuple[int, ...]) -> ReducedGraph:
        return at_states(self.graph, np.array(self._fixed[: len(fixed)], np.int64), np.array(fixed, np.int64))

    def _tables(self, fixed: tuple[int, ...]) -> FloatArray:
        """Return the log tables of the graph given the fixed states."""
        return self._given(fixed).graph.log_phi

    def _level(self, depth: int) -> _QueryLevel:
        """Return what the nodes at a depth share; a level is planned when the search first comes to it."""
        if depth == len(self._levels):
            above = self._levels[-1]
            variable = int(above.own[above.plan.early[0]])
            self._fixed.append(variable)
            free = self._given((0,) * depth)
            assert free.variables is not None
            graph, own = free.graph, free.variables
            place = np.full(self.graph.num_vars, -1)
            place[own] = np.arange(len(own))
            order = above.own[above.plan.order.variables]
            order = place[order[order != variable]]
            plan = _plan_within(self._memory, graph.structure, order, self.is_query[own], self._most_entries)
            self._levels.append(_QueryLevel(plan, own))
        return self._levels[depth]


def _plan_within(
    memory: float, structure: Structure, order: IntArray, is_query: BoolArray, most_entries: float
) -> MixedPlan:
    """Return the plan with the latest maxima that fits; without any move of a variable if none does."""
    for bits in (_BITS, _BITS - 2.0, _BITS - 4.0):
        plan = plan_mixed(structure, order, is_query, bits, most_entries)
        if _fits(plan, memory, most_entries):
            return plan
    return plan_mixed(structure, order, is_query, 0.0, most_entries)


def _fits(plan: MixedPlan, memory: float, most_entries: float) -> bool:
    return plan.entries <= most_entries and FLOAT_BYTES * plan.program.starts(reuse=True)[1] <= memory


def _most_entries(clock: Clock) -> float:
    """Return the table entries that one pass may have."""
    return min(_MOST_ENTRIES, _PASS_SHARE * clock.left / _SECONDS)
