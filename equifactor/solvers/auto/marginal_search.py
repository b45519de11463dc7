"""Search for a marginal MAP where not all sums can be made first: blocks of query variables are solved exactly.

A step fixes the query outside a block. The other variables are then summed out exactly, and the best states of the
block follow from a MAP of what is left. So the sum never falls, and it is always known exactly.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import GRACE
from equifactor.base.clock import Clock
from equifactor.base.status import Task
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.reduction import ReducedGraph, without_observed
from equifactor.graph.slicing import slice_tables
from equifactor.solvers.elimination.exact import Exact
from equifactor.solvers.elimination.orders import FEW_TRIES, Order, PlanningLimits, best_order
from equifactor.solvers.elimination.partial_sums import SumPlan, plan_sums, sum_out_part
from equifactor.solving.solver import SolveContext

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, IntArray

_MEMORY = 0.5  # GiB of the sums of a step, and of the maxima over its block.
_LARGEST_BITS = 26.0  # log2 of the entries of the largest table of a sum: 0.5 GiB.
_ROUNDING = 1e-9  # Scores within this relative distance count as equal.
_FIRST_SIZE = 4  # Query variables of the first blocks. Chosen by hand.
# Table entries of a step towards which blocks grow and shrink, as a multiple of those without a block; and their range.
# All chosen by hand. A step of 2^25 entries takes 0.1 s.
_TIMES, _LEAST_ENTRIES, _MOST_ENTRIES = 8.0, 2.0**19, 2.0**25


class BlockAscent:
    """Steps over blocks of query variables, from one assignment. `score` is the log of the sum, and never falls.

    Args:
        graph: a graph of tables without observed variables.
        is_query: [v] whether a variable is maximised over.
        states: [v] the states to begin with; those of summed variables do not matter.
        context: the clock and the seed of the call.

    `possible` is False if the sums at an assignment are too large for any step.
    """

    def __init__(self, graph: FactorGraph, is_query: BoolArray, states: IntArray, context: SolveContext) -> None:
        self.graph, self.is_query, self.states, self.context = graph, is_query, states.copy(), context
        self.query = np.flatnonzero(is_query)
        self.score = -math.inf
        self.steps = 0
        self._rng = np.random.default_rng(context.seed)
        self._size = float(_FIRST_SIZE)
        self._near = _neighbours(graph)
        self._order = self._sum_order()
        self.possible = self._order is not None and self._evaluate()

    def _sum_order(self) -> IntArray | None:
        """Return an order of the summed variables that is good when the whole query is fixed; None if none fits."""
        fixed = self._fixed(self.query)
        assert fixed.variables is not None or not len(self.query)
        limits = PlanningLimits(tries=8 * FEW_TRIES, message=2.0**_LARGEST_BITS, kept=2.0 ** (_LARGEST_BITS + 1))
        found = best_order(fixed.graph.structure, limits, self.context.seed)
        if not isinstance(found, Order):
            return None
        return found.variables if fixed.variables is None else fixed.variables[found.variables]

    def _fixed(self, variables: IntArray) -> ReducedGraph:
        """Return the graph given the present states of some variables, without them."""
        return at_states(self.graph, variables, self.states[variables])

    def _evaluate(self) -> bool:
        """Compute the score of the present states, also shortly after the deadline; return whether the sums fit."""
        steps, free, _ = self._planned(np.zeros(0, np.int64))
        self._goal = min(max(_TIMES * steps.entries, _LEAST_ENTRIES), max(_MOST_ENTRIES, 2.0 * steps.entries))
        found = (
            None if steps.largest > _LARGEST_BITS else sum_out_part(free, steps, Clock(GRACE + self.context.clock.left))
        )
        if found is None:
            return False
        self.score = float(found[0].log_score(np.zeros(0, np.int64)))
        return True

    def _planned(self, block: IntArray) -> tuple[SumPlan, FactorGraph, IntArray]:
        """Return a plan of the sums given the query outside a block, the graph, and the numbers of its variables."""
        assert self._order is not None
        free = self._fixed(np.setdiff1d(self.query, block))
        own = np.arange(self.graph.num_vars) if free.variables is None else free.variables
        place = np.full(self.graph.num_vars, -1)
        place[own] = np.arange(len(own))
        return plan_sums(free.graph.structure, place[self._order]), free.graph, own

    def step(self) -> bool:
        """Find the best states of one block, given all others; return whether the score has risen."""
        self.steps += 1
        steps, free, own = self._planned(self._block(max(1, round(self._size))))
        if steps.entries > 4.0 * self._goal or steps.largest > _LARGEST_BITS:
            self._size = max(1.0, 0.7 * self._size)
            return False
        found = sum_out_part(free, steps, self.context.clock)
        if found is None:
            return False
        graph, kept = found
        exact, context = Exact(memory_limit=_MEMORY), SolveContext(clock=self.context.clock, seed=self.context.seed)
        maxima = exact.plan(graph, Task.MAP, context)
        work = steps.entries + maxima.entries
        if not maxima.finished or work > 4.0 * self._goal:
            self._size = max(1.0, 0.7 * self._size)
            return False
        self._size = min(max(1.0, self._size * (1.1 if work < self._goal else 0.9)), float(len(self.query)))
        best = exact.run_plan(graph, maxima, Task.MAP, context)
        if best.assignment is None:
            return False
        score = float(graph.log_score(best.assignment))
        rises = score > self.score + _ROUNDING * max(1.0, abs(self.score))
        if score >= self.score:
            self.score = score
            self.states[own[kept]] = best.assignment
        return rises

    def value_of(self, states: IntArray) -> float:
        """Return the log of the sum at other states [v]; -inf if there was no time for it."""
        kept = self.states, self.score
        self.states = states
        found = self.score if self._evaluate() else -math.inf
        self.states, self.score = kept
        return found

    def begin(self, states: IntArray, score: float) -> None:
        """Go on from other states [v], whose sum is known."""
        self.states, self.score = states.copy(), score

    def _block(self, size: int) -> IntArray:
        """Return query variables near a random one, in steps from neighbour to neighbour."""
        start = int(self._rng.choice(self.query))
        seen, front = {start}, [start]
        found: list[int] = []
        while front and len(found) < size:
            following: list[int] = []
            for i in front:
                if self.is_query[i]:
                    found.append(i)
                    if len(found) == size:
                        break
                for j in self._near[i]:
                    if j not in seen:
                        seen.add(j)
                        following.append(j)
            self._rng.shuffle(following)
            front = following
        return np.array(found)


def at_states(graph: FactorGraph, variables: IntArray, states: IntArray) -> ReducedGraph:
    """Return a graph given the states of some variables, without them; `condition` takes five times as long."""
    if not len(variables):
        return without_observed(graph)
    observed = np.full(graph.num_vars, -1)
    observed[variables] = states
    structure, log_phi = slice_tables(graph.structure, graph.log_phi, observed)
    return without_observed(FactorGraph.trusted(structure, log_phi, observed, graph.name))


def _neighbours(graph: FactorGraph) -> list[list[int]]:
    """Return the variables that share a factor with each variable."""
    from equifactor.solvers.elimination import order_kernels as kernels

    s = graph.structure
    ptr, adj = kernels.adjacency(s.num_vars, s.scope_ptr, s.scope_vars)
    return [adj[ptr[i] : ptr[i + 1]].tolist() for i in range(s.num_vars)]
