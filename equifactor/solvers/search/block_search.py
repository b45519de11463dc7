"""MAP by exact moves of large blocks in plain NumPy, for calls that end before the kernels of other searches compile.

A step keeps some variables as they are, so that the rest can be eliminated with small tables, and gives all others
their best states at once. The score never falls. After some steps without success the tables may be twice as large, so
that fewer variables are kept. A step that keeps no variable proves the optimum.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.status import Status
from equifactor.factors.move_model import finite_tables
from equifactor.graph import FactorGraph
from equifactor.graph.reduction import to_free_part, without_observed
from equifactor.graph.slicing import slice_tables
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.elimination.plain_elimination import plain_best
from equifactor.solvers.elimination.plain_orders import Steps, placed, plain_order_seconds
from equifactor.solving.estimate import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.clock import Clock
    from equifactor.base.typing import IntArray
    from equifactor.graph.structure import Structure
    from equifactor.solving.solver import SolveContext

_FIRST_BITS = 10.0  # Bits of the largest table of the first steps. Chosen by hand.
_PATIENCE = 8  # Steps without success after which tables may be twice as large. Chosen by hand.
_STEP_SHARE = 0.03  # The share of the time left that a step may take, so that there are some tens. Chosen by hand.
_NOISE = 1.0  # Bits by which prices of variables are raised at random, so that blocks differ. Chosen by hand.


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
        self._log_phi, *_ = finite_tables(graph.log_phi, self.structure.table_ptr)
        self._finite = FactorGraph.trusted(self.structure, self._log_phi, None, graph.name)
        self.best, self.score = start.copy(), float(self._finite.log_score(start))
        self.proven = False
        self.steps = 0
        self._rng = np.random.default_rng(seed)
        self._bits: list[float] = np.log2(self.structure.card).tolist()
        self._near = _neighbours(self.structure)
        self._most_bits, self._failed = _FIRST_BITS, 0

    def offer(self, assignment: IntArray) -> None:
        """Continue from another assignment [V] if it is better."""
        score = float(self._finite.log_score(assignment))
        if score > self.score:
            self.best, self.score = assignment.copy(), score

    def step(self, clock: Clock) -> None:
        """Move a block; a step that the clock stops changes nothing."""
        begin, left = clock.seconds, clock.left
        block = random_block(self._near, self._bits, self._most_bits, self._rng)
        observed = np.full(len(self._bits), -1)
        observed[block.kept] = self.best[block.kept]
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
        gain = found.score - self.score
        if gain >= 0.0 or self.proven:
            self.best, self.score = rest.assignment(found.states), found.score
        self._failed = 0 if gain > 1e-9 * max(1.0, abs(self.score)) else self._failed + 1
        if self._failed >= _PATIENCE:
            is_slow = 2.0 * (clock.seconds - begin) > _STEP_SHARE * left
            self._most_bits, self._failed = _FIRST_BITS if is_slow else self._most_bits + 1.0, 0


def block_search(graph: FactorGraph, start: IntArray, context: SolveContext) -> Estimate:
    """Return the best assignment that steps reach before the deadline, from an assignment [V] of a graph of tables."""
    reduced = to_free_part(graph)
    if reduced is None:
        return zero_by_exclusion(graph)
    search = BlockSearch(reduced.graph, reduced.states(start), context.seed)
    while not search.proven and not context.clock.stopped:
        search.step(context.clock)
        context.report(search.steps, None, f"log score {search.score:.6g}")
    return Estimate(
        status=Status.OPTIMAL if search.proven else context.clock.status or Status.CONVERGED,
        message=f"best of {search.steps} exact moves of blocks",
        assignment=reduced.assignment(search.best),
        iterations=search.steps,
    )


def block_search_seconds(structure: Structure) -> float:
    """Return about how long the start of a search and its first step take."""
    return 2.0 * plain_order_seconds(structure)


def _neighbours(structure: Structure) -> list[set[int]]:
    """Return the variables that share a factor with each variable."""
    near: list[set[int]] = [set() for _ in range(structure.num_vars)]
    scope, ptr = structure.scope_vars.tolist(), structure.scope_ptr.tolist()
    for a in range(len(ptr) - 1):
        own = scope[ptr[a] : ptr[a + 1]]
        for i in own:
            near[i].update(own)
    for i, around in enumerate(near):
        around.discard(i)
    return near


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
