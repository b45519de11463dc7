"""The upper bound as a climb: small clusters along several orders first, then larger ones along the best."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.clock import Clock
from equifactor.result import Status, Task
from equifactor.solver import SolveContext
from equifactor.solvers.bounds.bound_descent import Descent
from equifactor.solvers.bounds.bucket_partition import entries_of, partition
from equifactor.solvers.bounds.elimination_orders import candidate_orders
from equifactor.solvers.bounds.factor_layers import OrderedScopes, OutOfTime, cover
from equifactor.solvers.bounds.weighted_bound import WeightedBound
from equifactor.solvers.messages.trw import TreeReweighted

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.typing import FloatArray

_FIRST_BITS = 6.0  # clusters of the trial have at most 64 entries
_BITS_MORE = 2.0  # and four times as many at every step
_TRIAL = 30  # iterations along each order of the trial
_PART = 10  # iterations between two looks at the other side
_ROUND = 120  # iterations at each size, most of what there is to gain
_BYTES = 20  # that an entry of a cluster takes, messages and gradients included
_BYTES_PER_SHIFT = 400  # that the descent keeps
_SECONDS = 2e-8  # for an entry of a cluster in an iteration, before it is measured
_OVERHEAD = 100.0  # entries that take as long as what a cluster costs besides its entries
_SHARE = 0.8  # of the time left that a new size may take for its iterations
_FIRST_SHARE = 0.15  # of the time left for the first bound
_WORK_PER_SECOND = 5e7  # list operations of the planner
_PLANNING = 0.1  # share of the time left for it


class _Run(NamedTuple):
    """A descent along one order."""

    name: str
    scopes: OrderedScopes
    descent: Descent


class UpperSide:
    """The best upper bound so far and what it came from.

    Args:
        graph: the model, without observed variables.
        most_bits: log2 of the entries that a cluster may have.
        memory: GiB of tables.
        iterations: most iterations in all.
        seed: seed of the orders.
    """

    def __init__(self, graph: FactorGraph, most_bits: float, memory: float, iterations: int, seed: int) -> None:
        s = self._structure = graph.structure
        self._graph = graph
        constants = graph.log_phi[s.table_ptr[:-1][s.arity == 0]]
        self._constant = float(constants.sum()) + 2.0**-52 * (len(constants) + 1) * float(np.abs(constants).sum())
        self._most_bits, self._memory, self._most, self._seed = most_bits, memory * 2**30, iterations, seed
        self.best = math.inf
        self.iterations = 0
        self.finished = False
        self.settled = False  # nothing is left to gain at the last size
        self.orders: list[tuple[str, OrderedScopes]] = []
        self.largest, self.layers = 0, 0
        self.description = "no bound from above"
        self.marginals = np.repeat(1.0 / s.card, s.card)
        self._settled_trees = False  # nothing is left to gain from trees
        self._tree_seconds = 0.0  # that they took
        self._each = _SECONDS
        self._steps: Iterator[bool] | None = None

    def advance(self, clock: Clock) -> None:
        """Some iterations; the plan of the climb is that of `_climb`."""
        if self._steps is None:
            self._steps = self._climb(clock)
        if not self.finished and next(self._steps, None) is None:
            self.finished = True

    def _climb(self, clock: Clock) -> Iterator[bool]:
        """All orders with the smallest clusters, the two best with larger ones; then the best, larger and larger."""
        bits = min(_FIRST_BITS, self._most_bits)
        work = _WORK_PER_SECOND * _PLANNING * clock.left
        tried: list[_Run] = []
        for name, order in candidate_orders(self._structure, work, self._seed):
            run = self._begin(name, OrderedScopes(self._structure, order), bits, clock)
            if run is None:
                break
            tried.append(run)
            self.orders.append((name, run.scopes))
            yield from self._iterate(run, _TRIAL, clock)
        if not tried and not self._settled_trees and clock.left > 2.0 * self._tree_seconds:
            self.begin(clock, 1.0)
            yield True
        tried.sort(key=lambda run: run.descent.best)
        contest = 2
        while tried and bits < self._most_bits:
            more = min(bits + _BITS_MORE, self._most_bits)
            larger = []
            for run in tried[:contest]:
                next_run = self._begin(run.name, run.scopes, more, clock, _SHARE / contest)
                if next_run is not None:
                    yield from self._iterate(next_run, _ROUND, clock)
                    larger.append(next_run)
            if not larger and contest == 1:
                break
            bits = more if larger else bits  # Where two would take too long, there is time for one perhaps.
            tried = sorted(larger + tried[:1], key=lambda run: run.descent.best)
            contest = 1
        for run in tried[:1]:
            self.settled = run.descent.settled
            while not run.descent.settled and not clock.stopped and self.iterations < self._most:
                yield from self._iterate(run, _ROUND, clock)
                self.settled = run.descent.settled

    def _begin(
        self, name: str, scopes: OrderedScopes, bits: float, clock: Clock, share: float = math.inf
    ) -> _Run | None:
        """A bound with clusters of at most 2^bits entries, unless it would take too long or too much memory."""
        try:
            return self._built(name, scopes, bits, clock, share)
        except OutOfTime:
            return None

    def _built(self, name: str, scopes: OrderedScopes, bits: float, clock: Clock, share: float) -> _Run | None:
        layers = cover(scopes, bits, clock)
        entries = entries_of(scopes, layers)
        clusters = sum(layer.variables.bit_count() for layer in layers)
        needed = (entries + _OVERHEAD * clusters) * self._each * _ROUND
        if share < math.inf and (entries * _BYTES > self._memory or needed > share * clock.left):
            return None
        part = partition(self._structure, scopes, layers, clock)
        if share < math.inf and entries * _BYTES + part.num_shifts * _BYTES_PER_SHIFT > self._memory:
            return None
        return _Run(name, scopes, Descent(WeightedBound(part, self._graph.log_phi, len(layers))))

    def _iterate(self, run: _Run, count: int, clock: Clock) -> Iterator[bool]:
        """Some iterations, in short parts."""
        descent, part = run.descent, run.descent.bound.part
        while count > 0 and not descent.settled:
            start, first = clock.seconds, descent.iterations
            for _ in range(min(count, _PART)):
                if self.iterations >= self._most or not descent.step(clock):
                    count = 0
                    break
                self.iterations += 1
            count -= _PART
            done = descent.iterations - first
            if done > 1:
                self._each = (clock.seconds - start) / done / (part.entries + _OVERHEAD * len(part.share))
            if descent.best + self._constant < self.best:
                self.best = descent.best + self._constant
                self._note(run)
            yield True

    def _note(self, run: _Run) -> None:
        """Keep what the best run says besides its bound."""
        bound = run.descent.bound
        self.largest, self.layers = int(np.diff(bound.part.buckets.table).max(initial=0)), bound.layers
        self.description = (
            f"above {self.layers} layers in the order {run.name!r}, clusters of up to {self.largest} entries"
        )
        self.marginals = self._marginals(bound, run.scopes)

    def begin(self, clock: Clock, share: float = _FIRST_SHARE) -> None:
        """A first bound from `trw`, which is there in a moment and holds however early it is stopped."""
        began, part = clock.seconds, clock.part(share)
        first = TreeReweighted().run([self._graph], Task.PR, SolveContext(clock=part, seed=self._seed))[0]
        self._tree_seconds = clock.seconds - began
        if first.status is Status.ZERO_PROBABILITY:
            self.best = -math.inf
        elif first.upper_bound is not None and first.upper_bound < self.best:
            self.best, self.description = first.upper_bound, "above trees by trw"
            self._settled_trees = first.status is Status.CONVERGED
            if first.marginals is not None:
                self.marginals = first.marginals.values

    def _marginals(self, bound: WeightedBound, scopes: OrderedScopes) -> FloatArray:
        """[x] what the layers agree on at the end; uniform before a gradient was computed."""
        s = self._structure
        belief = bound.beliefs()
        p = np.empty(int(s.state_ptr[-1]))
        for place, v in enumerate(scopes.order.tolist()):
            p[s.state_ptr[v] : s.state_ptr[v + 1]] = belief[place, : s.card[v]]
        total = np.repeat(np.add.reduceat(p, s.state_ptr[:-1]), s.card)
        uniform = np.repeat(1.0 / s.card, s.card)
        return np.where(total > 0.0, p / np.where(total > 0.0, total, 1.0), uniform)
