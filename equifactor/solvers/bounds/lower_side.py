"""The lower bound as a climb: blocks of growing size, from the best assignment that local search finds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.status import Task
from equifactor.solvers.bounds.block_field import BlockField
from equifactor.solvers.bounds.factor_layers import OrderedScopes, OutOfTime
from equifactor.solvers.bounds.split_field import SplitField
from equifactor.solvers.messages.meanfield import MeanField
from equifactor.solving.solver import SolveContext

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph
    from equifactor.solvers.search.local_search import LocalSearch

_FIRST_BITS = 8.0  # clusters of the first blocks have at most 256 entries, or room for two variables
_BITS_MORE = 2.0  # and four times as many at every step, or room for one variable more
_SWEEPS = 20  # over all blocks of a field
_GAIN = 1e-4  # a field that gains less in a sweep has settled
_SHARE = 0.25  # of the time left that a new size may take
_FIRST_SHARE = 0.1  # of the time left for the first bound
_SEARCH = 0.1  # share of the time left for a better assignment
_PHASES = 30  # of the local search before every size
_MOST_SEARCHES = 10  # after which a model without a possible assignment is given up
_SECONDS = 1e-8  # for an entry of a cluster in a sweep
_BYTES = 8.0  # for an entry of a cluster
_PATIENCE = 5  # searches in a row that bring nothing, after which the best field is split
_MOST_SPLITS = 1000
_REVIEW = 16  # splits between two looks at what they gained


class _BestField(NamedTuple):
    """The best field so far."""

    name: str
    scopes: OrderedScopes
    field: BlockField
    bound: float
    q: FloatArray  # [X+1]


class LowerSide:
    """The best lower bound so far and what it came from.

    Args:
        graph: the model, without observed variables.
        most_bits: log2 of the entries that a cluster may have.
        memory: GiB of tables.
        iterations: most splits.
        seed: seed of the search for an assignment.
    """

    def __init__(self, graph: FactorGraph, most_bits: float, memory: float, iterations: int, seed: int) -> None:
        self._graph = graph
        self._most_bits, self._memory, self._seed = most_bits, memory * 2**30, seed
        self._one = float(np.log2(graph.card.max(initial=2)))  # bits of the variable of the most states
        self._more = max(_BITS_MORE, self._one)
        self.best = -math.inf
        self.finished = False
        self.seconds = 0.0  # that it has taken
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
        self._idle = 0  # searches in a row that brought nothing
        self._cost = 0.0  # seconds of the last round
        self._entries = 0.0  # of all fields in it
        self._heaviest = 0.0  # of the largest of them
        self._reached: dict[str, float] = {}  # what the last field along each order came to
        self._searches = 0
        self._search: LocalSearch | None = None

    def advance(self, orders: list[tuple[str, OrderedScopes]], clock: Clock) -> None:
        """One round: a better assignment and larger blocks; when they are as large as they may be, a split."""
        began = clock.seconds
        bits = min(max(_FIRST_BITS, 2.0 * self._one, self._bits + self._more), self._most_bits)
        expected = self._cost + _SECONDS * _SWEEPS * 2.0**self._more * self._entries
        too_much = expected > _SHARE * clock.left or 2.0**self._more * self._heaviest * _BYTES > self._memory
        if self._bits >= self._most_bits or (self._bits and too_much):
            self._refine(clock)
        else:
            self.search(clock)
            if self._score == -math.inf:
                self.finished = self._searches >= _MOST_SEARCHES
            else:
                self._bits, self._entries, self._heaviest = bits, 0.0, 0.0
                listed = OrderedScopes(self._graph.structure, np.arange(self._graph.num_vars))
                known = orders or [("listed", listed)]
                known = sorted(known, key=lambda order: -self._reached.get(order[0], math.inf))  # the unknown first
                for name, scopes in known[: 2 if len(self._reached) > 2 else None]:
                    self._ascend(name, scopes, clock.part(_SHARE))
            self._cost = clock.seconds - began
        self.seconds += clock.seconds - began

    def begin(self, clock: Clock) -> None:
        """A first bound from `meanfield`, whose q is a start for blocks as well."""
        began = clock.seconds
        found = MeanField().run_one(self._graph, Task.PR, SolveContext(clock=clock.part(_FIRST_SHARE), seed=self._seed))
        if found.lower_bound is not None and found.marginals is not None:
            s = self._graph.structure
            sizes = np.abs(np.where(np.isneginf(self._graph.log_phi), 0.0, self._graph.log_phi))
            largest = np.maximum.reduceat(sizes, s.table_ptr[:-1]).sum() + np.log(s.card).sum()
            sure = found.lower_bound - 2.0**-52 * (s.num_entries + 8.0 * float(s.card.sum())) * float(largest + 1.0)
            self._first_q = np.append(found.marginals.values, 1.0)
            if sure > self.best:
                self.best, self.description = sure, "one field by meanfield"
        self.seconds += clock.seconds - began

    def _refine(self, clock: Clock) -> None:
        """Look on for assignments until that brings nothing; then cut the heaviest part of the best field."""
        if self._idle < _PATIENCE and self._best is not None:
            before = self._score
            self.search(clock)
            self._idle += 1
            if self._score > before:
                self._idle = 0
                self._ascend(self._best.name, self._best.scopes, clock)
            return
        if self._split is None:
            if self._best is None:
                self.finished = True
                return
            self._best.field.begin(self._best.q)
            self._split = SplitField(self._best.field, self._best.bound, _SWEEPS, _GAIN)
            self._split.field.q[:] = self._best.q
        if self._split.finished or self._splits >= self._most_splits:
            self.finished = True
            return
        self._split.split(clock)
        self._splits += 1
        bound = self._split.bound()
        if self._splits % _REVIEW == 0:
            self.finished = bound < self._reviewed + _REVIEW * _GAIN
            self._reviewed = bound
        if bound > self.best:
            self.best = bound
            self.description = f"{self._split.count} parts of {self._description}"

    def search(self, clock: Clock) -> None:
        """Look for a better assignment; its score alone is a bound."""
        from equifactor.factors.move_model import MoveModel
        from equifactor.graph import compile
        from equifactor.solvers.search.local_search import LocalSearch, run_phases

        if self._search is None:
            model = MoveModel(compile(self._graph))
            self._search = LocalSearch(model, model.unary_assignment(), self._seed)
        self._searches += 1
        run_phases(self._search, clock.part(_SEARCH), self._searches * _PHASES)
        self._start = self._search.best
        self._score = float(self._graph.log_score(self._start))
        if self._score > -math.inf:
            finite = self._graph.log_phi[np.isfinite(self._graph.log_phi)]
            sure = self._score - 2.0**-51 * self._graph.num_factors * float(np.abs(finite).max(initial=0.0) + 1.0)
            if sure > self.best:
                self.best, self.description = sure, "one assignment"

    def _ascend(self, name: str, scopes: OrderedScopes, clock: Clock) -> None:
        """Sweep over the blocks of one field until it settles; from the best field so far, then from the assignment."""
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
