"""MAP by exact moves of large blocks in plain NumPy, for calls that end before the kernels of other searches compile.

A step keeps some variables as they are, so that the rest can be eliminated with small tables, and gives all others
their best states at once. After some steps without success the tables may be twice as large, so that fewer variables
are kept. When steps become slow, the search starts again from a disturbed assignment. A step that keeps no variable
proves the optimum.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import Budget
from equifactor.base.status import Status
from equifactor.factors.move_model import finite_tables
from equifactor.graph import FactorGraph
from equifactor.graph.reduction import to_free_part, without_observed
from equifactor.graph.slicing import slice_tables
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.elimination.orders import PlanningLimits
from equifactor.solvers.elimination.plain_elimination import plain_best
from equifactor.solvers.elimination.plain_orders import Planner, Steps, placed, plain_order_seconds
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.clock import Clock
    from equifactor.base.status import Task
    from equifactor.base.typing import IntArray
    from equifactor.solving.solver import SolveContext

# Chosen by hand, on random grids, regular graphs, pedigrees and graphs of all pairs, with 4 s.
_FIRST_BITS = 10.0  # Bits of the largest table of the first steps.
_PATIENCE = 8  # Steps without success after which tables may be twice as large.
_STEP_SHARE = 0.025  # The share of the whole time that a step may take.
_NOISE = 1.0  # Bits by which prices of variables are raised at random, so that blocks differ.
_MOST_STEPS = 10_000  # Steps after which a search without a deadline ends.
_STEP_SECONDS = 3.0  # The time of the first step, beside that of a plain order.
_KEPT = 0.0, 0.5, 0.8, 0.95  # Shares of the states of the best assignment in the next start.


class Block(NamedTuple):
    """The variables of a step."""

    kept: list[int]  # the variables that keep their states
    variables: list[int]  # the others, in the order of their elimination
    separators: list[set[int]]  # of each of them


class BlockSearch:
    """The search on a graph of tables without observed variables: `step` moves one block.

    Args:
        graph: the graph.
        start: [V] the first assignment.
        seed: the seed of all random choices.
    """

    def __init__(self, graph: FactorGraph, start: IntArray, seed: int) -> None:
        self.structure = graph.structure
        # Zeros are penalties, so that steps lead from impossible assignments to possible ones.
        self._log_phi = finite_tables(graph.log_phi, self.structure.table_ptr)[0]
        self._finite = FactorGraph.trusted(self.structure, self._log_phi, None, graph.name)
        self.best, self.score = start, float(self._finite.log_score(start))
        self.proven = False
        self.steps = 0
        self._x, self._x_score = self.best, self.score  # the assignment that steps change
        self._rng = np.random.default_rng(seed)
        self._bits: list[float] = np.log2(self.structure.card).tolist()
        self._near = Planner(self.structure, PlanningLimits()).near
        self._most_bits, self._failed = _FIRST_BITS, 0

    def step(self, clock: Clock, slow: float) -> None:
        """Move a block. A step that the clock stops changes nothing; steps should take less than `slow` seconds."""
        begin = clock.seconds
        block = random_block(self._near, self._bits, self._most_bits, self._rng)
        observed = np.full(len(self._bits), -1)
        observed[block.kept] = self._x[block.kept]
        rest = without_observed(FactorGraph.trusted(*slice_tables(self.structure, self._log_phi, observed), observed))
        number = np.cumsum(observed < 0) - 1
        numbers = number.tolist()
        separators = [{numbers[i] for i in around} for around in block.separators]
        order = placed([Steps(0, number[block.variables].tolist(), separators)], rest.graph.num_vars, 1)
        found = plain_best(rest.graph.structure, order, rest.graph.log_phi, clock)
        if found is None:
            return
        self.steps += 1
        self.proven = not block.kept
        gain = found.score - self._x_score
        if gain >= 0.0:
            self._x, self._x_score = rest.assignment(found.states), found.score
        if self._x_score > self.score or self.proven:
            self.best, self.score = self._x, self._x_score
        self._failed = 0 if gain > 1e-9 * max(1.0, abs(self.score)) else self._failed + 1
        if self._failed >= _PATIENCE:
            self._failed = 0
            self._most_bits += 1.0
            if 2.0 * (clock.seconds - begin) > slow:
                self._start_again()

    def _start_again(self) -> None:
        """Continue from the best assignment with random states of a random share of its variables."""
        kept = self._rng.random(len(self.best)) < self._rng.choice(_KEPT)
        self._x = np.where(kept, self.best, self._rng.integers(0, self.structure.card))
        self._x_score, self._most_bits = float(self._finite.log_score(self._x)), _FIRST_BITS


class PlainBlocks:
    """MAP by a `BlockSearch` until the deadline, in the place of a solver.

    Args:
        start: [V] the first assignment; None for the first state of every variable.
    """

    name = "block-search"

    def __init__(self, start: IntArray | None = None) -> None:
        self.start = start

    def __str__(self) -> str:
        return self.name

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        """Return the best assignment that steps reach on each graph of tables; none if there is no time for a step."""
        return [self._run(graph, context) for graph in graphs]

    def _run(self, graph: FactorGraph, context: SolveContext) -> Estimate:
        clock = context.clock
        reduced = to_free_part(graph)
        if reduced is None:
            return zero_by_exclusion(graph)
        free = reduced.graph
        seconds = Budget(clock).time_for(_STEP_SECONDS * plain_order_seconds(free.structure))
        if seconds > clock.left:
            return Estimate(status=Status.TIME_LIMIT)
        # An impossible assignment may have states that the reduced graph has lost.
        first = np.zeros(free.num_vars, np.int64)
        if self.start is not None:
            first = np.clip(reduced.states(self.start), 0, free.card - 1)
        search = BlockSearch(free, first, context.seed)
        slow = _STEP_SHARE * clock.left
        while not search.proven and not clock.stopped and search.steps < _MOST_STEPS:
            search.step(clock, slow)
            context.report(search.steps, None, f"log score {search.score:.6g}")
        assignment = reduced.assignment(search.best)
        if search.proven and np.isneginf(graph.log_score(assignment)):
            return zero_by_exclusion(graph)
        return Estimate(
            status=Status.OPTIMAL if search.proven else clock.status or Status.CONVERGED,
            message=f"best of {search.steps} exact moves of blocks",
            assignment=assignment,
            iterations=search.steps,
        )


def random_block(neighbours: Sequence[set[int]], bits: Sequence[float], most: float, rng: np.random.Generator) -> Block:
    """Return variables to keep, such that the others are eliminated with tables of at most `most` bits.

    Variables are eliminated in the order of the sizes of their tables, which are raised at random. Where the smallest
    table is too large, the variable with the most neighbours in it is kept, which makes the tables around it smaller.
    """
    near = [set(around) for around in neighbours]
    noise: list[float] = (_NOISE * rng.random(len(near))).tolist()
    size = [bits[i] + sum([bits[j] for j in around]) for i, around in enumerate(near)]
    price = [a + b for a, b in zip(size, noise, strict=True)]
    heap = [(k, i) for i, k in enumerate(price)]
    heapify(heap)
    block = Block([], [], [])
    while heap:
        k, v = heappop(heap)
        if price[v] != k:
            continue  # a later price of this variable is in the heap, or it is gone
        chosen, around = v, near[v]
        if size[v] > most:
            chosen = max((v, *around), key=lambda i: len(near[i]) * (1.0 + noise[i]))
            block.kept.append(chosen)
            if chosen != v:
                heappush(heap, (k, v))
        else:
            block.variables.append(v)
            block.separators.append(around)
        price[chosen] = math.nan
        for i in near[chosen]:
            near[i].remove(chosen)
            size[i] -= bits[chosen]
            if chosen == v and size[v] <= most:
                missing = around - near[i]
                missing.discard(i)
                near[i] |= missing
                size[i] += sum([bits[j] for j in missing])
            price[i] = size[i] + noise[i]
            heappush(heap, (price[i], i))
    gone = set(block.kept)
    return block._replace(separators=[around - gone for around in block.separators])
