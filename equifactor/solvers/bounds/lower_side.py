"""The lower bound of `mini-buckets`: blocks of growing size, from the best assignment that local search finds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import FLOAT_BYTES, Refusal, Seconds
from equifactor.base.status import Task
from equifactor.kernels.pointers import picked
from equifactor.solvers.bounds.block_field import BlockField
from equifactor.solvers.bounds.factor_layers import BITS_MORE, OrderedScopes, OutOfTime
from equifactor.solvers.bounds.split_field import SplitField
from equifactor.solvers.messages.meanfield import MeanField
from equifactor.solvers.search.local_search import START_PHASES, START_SHARE, LocalSearch, run_phases
from equifactor.solving.ladder import Ladder, Step, Steps
from equifactor.solving.solver import SolveContext

if TYPE_CHECKING:
    from equifactor.base.budget import Budget
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph, FlatGraph

# log2 of the cluster entries of the first blocks, or room for two variables. With 8 the gap is 15 % wider; with 16 it
# is 17 % narrower, but 22 % wider on grids in 0.1 s.
_FIRST_BITS = 12.0
_SWEEPS = 20  # Sweeps over all blocks of a field, at most. Halved or doubled: gap within 15 %.
_GAIN = 1e-4  # Nats; a field that gains less in a sweep has settled. Halved or doubled: gap within 30 %.
# Reference seconds for a table entry, to start a search: 3.5 s on a formula of 656,000 clauses.
_SEARCH_START = 6e-7
# Reference seconds for an edge, to start `meanfield` and sweep once: a chain of 10^6 variables.
_FIRST_FIELD = 5e-7
_FIRST_ENTRY = 4e-8  # Reference seconds for a table entry, in the same: 11 million entries.
_SIZE_SHARE = 0.25  # The share of the time left that a new size may take. Halved or doubled: gap within 20 %.
# Searches after which a model without a possible assignment is abandoned. Halved or doubled: gap within 15 %.
_MOST_SEARCHES = 10
# Searches in a row without a better assignment before the best field is split. Halved or doubled: gap within 10 %.
_PATIENCE = 5
_MOST_SPLITS = 1000  # Splits of a field, at most. Halved or doubled: gap within 20 %.
_REVIEW = 16  # Splits after which their gain is compared with `_GAIN`. Halved or doubled: gap within 10 %.


class _BestField(NamedTuple):
    """The best field so far."""

    name: str
    scopes: OrderedScopes
    field: BlockField
    bound: float
    q: FloatArray  # [X+1]


class LowerSide:
    """The best lower bound so far and where it comes from. Its `ladder` raises it step by step.

    Args:
        graph: the model, without observed variables.
        most_bits: log2 of the entries that a cluster may have.
        iterations: most splits.
        orders: named orders of the variables; the upper bound adds to them.
        seed: the seed of the search for an assignment.
        budget: the time, and the memory of tables.
    """

    def __init__(
        self,
        graph: FactorGraph,
        most_bits: float,
        iterations: int,
        orders: list[tuple[str, OrderedScopes]],
        seed: int,
        budget: Budget,
    ) -> None:
        self._graph, self._orders, self._budget = graph, orders, budget
        self._most_bits, self._seed = most_bits, seed
        self._one = float(np.log2(graph.card.max(initial=2)))  # bits of the variable with the most states
        self._more = max(BITS_MORE, self._one)
        self.flat: FlatGraph[np.ndarray] | None = None  # the compiled model, if the upper bound has compiled it
        self.best = -math.inf
        self._done = False  # whether nothing more can be gained
        self.largest = 0
        self.description = "nothing"
        self._bits = 0.0
        self._start = np.zeros(graph.num_vars, np.int64)
        self._score = -math.inf
        self._best: _BestField | None = None
        self._first_q: FloatArray | None = None  # [X+1] of single variables
        self._description = ""
        self._split: SplitField | None = None
        self._splits, self._most_splits = 0, min(iterations, _MOST_SPLITS)
        self._reviewed = -math.inf
        self._idle = 0  # searches in a row without a better assignment
        self._cost = 0.0  # seconds that the last size took
        self._entries = 0.0  # entries of all fields of that size
        self._heaviest = 0.0  # entries of the largest of these fields
        self._reached: dict[str, float] = {}  # the bound of the last field along each order
        self._searches = 0
        self._search: LocalSearch | None = None
        self.ladder = Ladder(self._steps(), budget)

    def _steps(self) -> Steps[float]:
        """Start with `meanfield`, use larger and larger blocks, and split the best field when they no longer fit."""
        yield Step(run=self._first_bound, required=True)
        while not self._done:
            if self._bits < self._most_bits:
                growth = 2.0**self._more
                work = self._budget.speed * self._cost + Seconds.FIELD_ENTRY * _SWEEPS * growth * self._entries
                grown = yield Step(
                    run=self._larger_blocks,
                    work=work,
                    memory=growth * self._heaviest * FLOAT_BYTES,
                    share=_SIZE_SHARE,
                    required=not self._bits,
                )
                if not isinstance(grown, Refusal):
                    continue
            yield Step(run=self._refine)

    def _larger_blocks(self) -> float:
        """Look for a better assignment, then use larger blocks along the best orders; return the best bound."""
        clock = self._budget.clock
        began = clock.seconds
        bits = min(self._bits + self._more if self._bits else self._first_bits(), self._most_bits)
        self.search(clock)
        if self._done:
            return self.best
        if self._score == -math.inf:
            self._done = self._searches >= _MOST_SEARCHES
        else:
            self._bits, self._entries, self._heaviest = bits, 0.0, 0.0
            listed = OrderedScopes(self._graph.structure, np.arange(self._graph.num_vars))
            known = self._orders or [("listed", listed)]
            known = sorted(known, key=lambda order: -self._reached.get(order[0], math.inf))  # new orders first
            for name, scopes in known[: 2 if len(self._reached) > 2 else None]:
                self._ascend(name, scopes, clock.part(_SIZE_SHARE))
        self._cost = clock.seconds - began
        return self.best

    def _first_bits(self) -> float:
        """Return log2 of the cluster entries of the first blocks: fewer if such clusters do not fit the memory."""
        fit = self._budget.memory / (FLOAT_BYTES * max(1, self._graph.num_vars))
        return max(min(_FIRST_BITS, math.log2(max(1.0, fit))), 2.0 * self._one)

    def _first_bound(self) -> float:
        """Return a first bound by `meanfield`, whose q also starts the blocks.

        If there is no time for it, the bound is the score of the best state of each variable by its unary tables.
        """
        clock, s = self._budget.clock, self._graph.structure
        if not self._budget.ends_in_time(_FIRST_FIELD * s.num_edges + _FIRST_ENTRY * s.num_entries):
            return self._offer(self._unary_assignment())
        context = SolveContext(clock=clock.part(START_SHARE), seed=self._seed)
        found = (
            MeanField().run_one(self._graph, Task.PR, context)
            if self.flat is None
            else MeanField().run_flat(self.flat, context)
        )
        if found.lower_bound is not None and found.marginals is not None:
            sizes = np.abs(np.where(np.isneginf(self._graph.log_phi), 0.0, self._graph.log_phi))
            largest = np.maximum.reduceat(sizes, s.table_ptr[:-1]).sum() + np.log(s.card).sum()
            sure = found.lower_bound - 2.0**-52 * (s.num_entries + 8.0 * float(s.card.sum())) * float(largest + 1.0)
            self._first_q = np.append(found.marginals.values, 1.0)
            if sure > self.best:
                self.best, self.description = sure, "one field by meanfield"
        return self.best

    def _refine(self) -> float:
        """Look for better assignments until that no longer helps; then split the heaviest part of the best field."""
        clock = self._budget.clock
        if self._idle < _PATIENCE and self._best is not None:
            before = self._score
            self.search(clock)
            self._idle += 1
            if self._score > before:
                self._idle = 0
                self._ascend(self._best.name, self._best.scopes, clock)
            return self.best
        if self._split is None:
            if self._best is None:
                self._done = True
                return self.best
            self._best.field.begin(self._best.q)
            self._split = SplitField(self._best.field, self._best.bound, _SWEEPS, _GAIN)
            self._split.field.q[:] = self._best.q
        if self._split.finished or self._splits >= self._most_splits:
            self._done = True
            return self.best
        self._split.split(clock)
        self._splits += 1
        bound = self._split.bound()
        if self._splits % _REVIEW == 0:
            self._done = bound < self._reviewed + _REVIEW * _GAIN
            self._reviewed = bound
        if bound > self.best:
            self.best = bound
            self.description = f"{self._split.count} parts of {self._description}"
        return self.best

    def search(self, clock: Clock) -> None:
        """Look for a better assignment, whose score alone is a lower bound; end everything if there is no time."""
        from equifactor.factors.move_model import MoveModel
        from equifactor.graph import compile

        if self._search is None:
            if not self._budget.ends_in_time(_SEARCH_START * self._graph.structure.num_entries):
                self._done = True
                return
            model = MoveModel(compile(self._graph) if self.flat is None else self.flat)
            self._search = LocalSearch(model, model.unary_assignment(), self._seed)
        self._searches += 1
        run_phases(self._search, clock.part(START_SHARE), self._searches * START_PHASES)
        self._offer(self._search.best)

    def _unary_assignment(self) -> IntArray:
        """Return [V] the best state of each variable by its unary tables."""
        s = self._graph.structure
        values = np.zeros(int(s.state_ptr[-1]))
        alone = np.flatnonzero(s.arity == 1)
        into = picked(s.state_ptr, s.scope_vars[s.scope_ptr[alone]])[1]
        np.add.at(values, into, self._graph.log_phi[picked(s.table_ptr, alone)[1]])
        top = np.repeat(np.maximum.reduceat(values, s.state_ptr[:-1]), s.card)
        best = np.flatnonzero(values == top)
        variable, first = np.unique(np.repeat(np.arange(s.num_vars), s.card)[best], return_index=True)
        states = np.zeros(s.num_vars, np.int64)
        states[variable] = best[first] - s.state_ptr[variable]
        return states

    def _offer(self, assignment: IntArray) -> float:
        """Take an assignment as the start of the next blocks; its score is a lower bound. Return the best bound."""
        self._start = assignment
        self._score = float(self._graph.log_score(self._start))
        if self._score > -math.inf:
            finite = self._graph.log_phi[np.isfinite(self._graph.log_phi)]
            sure = self._score - 2.0**-51 * self._graph.num_factors * float(np.abs(finite).max(initial=0.0) + 1.0)
            if sure > self.best:
                self.best, self.description = sure, "one assignment"
        return self.best

    def _ascend(self, name: str, scopes: OrderedScopes, clock: Clock) -> None:
        """Sweep over the blocks of one field until it settles: from the best field so far, then from the assignment."""
        if clock.stopped:
            return
        try:
            field = BlockField(self._graph, scopes, self._bits, self._start, clock)
        except OutOfTime:
            return
        self._entries += field.entries
        self._heaviest = max(self._heaviest, field.entries)
        first = self._first_q if self._best is None else self._best.q
        for q in [None] if first is None else [first, None]:
            field.begin(q)
            before = -math.inf
            for _ in range(_SWEEPS):
                if not all(field.update(number, clock) for number in range(len(field.blocks))):
                    break
                bound = field.bound()
                self._reached[name] = max(bound, before)
                if self._best is None or bound > self._best.bound:
                    self._best = _BestField(name, scopes, field, bound, field.q.copy())
                    self._description = f"{len(field.blocks)} blocks in the order {name!r}"
                    if bound > self.best:
                        self.best, self.largest, self.description = bound, field.largest, self._description
                if bound < before + _GAIN or len(field.blocks) == 1:
                    break
                before = bound
