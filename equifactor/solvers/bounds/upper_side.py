"""The upper bound as a climb: small clusters along several orders first, then larger ones along the best."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.clock import Clock
from equifactor.kernels.pointers import place_in_row
from equifactor.solvers.bounds.bound_descent import Descent
from equifactor.solvers.bounds.bucket_partition import partition, sizes_of
from equifactor.solvers.bounds.elimination_orders import candidate_orders
from equifactor.solvers.bounds.factor_layers import OrderedScopes, OutOfTime, cover
from equifactor.solvers.bounds.tree_start import TreeStart
from equifactor.solvers.bounds.weighted_bound import WeightedBound

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph

_FIRST_BITS = 6.0  # clusters of the trial have at most 64 entries, or room for one variable besides the largest factor
_BITS_MORE = 2.0  # and four times as many at every step, or room for one variable more
_TRIAL = 30  # iterations along each order of the trial
_TRIAL_SHARE = 0.15  # of the time left that they may take for each
_LEAST_TRIAL = 8  # iterations there must be time for
_LEAST_START = 2, 0.5  # along the first order: these iterations within this share of the time left
_PART = 10  # iterations between two looks at the other side
_PART_SHARE = 0.1  # of the time left that these may take
_ROUND = 120  # iterations at each size, most of what there is to gain
_BYTES = 4  # that an entry of a cluster takes
_BYTES_PER_MESSAGE = 20  # that an entry of a message takes
_SECONDS = 1e-8  # for an entry of a cluster in an iteration, before it is measured
_SECONDS_TO_BUILD = 5e-6  # for an edge of the model in all layers
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
    bits: float  # log2 of the entries that its clusters may have


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
        self._one = float(np.log2(s.card.max(initial=2)))
        self._most_bits, self._memory, self._most, self._seed = most_bits, memory * 2**30, iterations, seed
        self.best = math.inf
        self.iterations = 0
        self.finished = False
        self.settled = False  # nothing is left to gain at the last size
        self.orders: list[tuple[str, OrderedScopes]] = []
        self.largest, self.layers = 0, 0
        self.description = "no bound from above"
        self.marginals = np.repeat(1.0 / s.card, s.card)
        self._trees = TreeStart(graph, seed)
        self._each, self._measured = _SECONDS, False
        self._steps: Iterator[bool] | None = None

    def advance(self, clock: Clock) -> None:
        """Some iterations; the plan of the climb is that of `_climb`."""
        if self._steps is None:
            self._steps = self._climb(clock)
        if not self.finished and next(self._steps, None) is None:
            self.finished = True

    def _climb(self, clock: Clock) -> Iterator[bool]:
        """All orders with the smallest clusters, the two best with larger ones; then the best, larger and larger."""
        tried = yield from self._trial(clock)
        contest, most = 2, self._most_bits
        while tried and tried[0].bits < most:
            more = min(tried[0].bits + max(_BITS_MORE, self._one), most)
            larger = []
            for run in tried[:contest]:
                next_run = self._begin((run.name, run.scopes), more, clock, (_ROUND, _SHARE / contest))
                if next_run is not None:
                    yield from self._iterate(next_run, _ROUND, clock)
                    larger.append(next_run)
            if not larger and contest == 1:
                break
            # Where two would take too long, there is time for one perhaps.
            tried = sorted(larger + tried[:1], key=lambda run: run.descent.best)
            most = (
                most if not larger or tried[0] in larger else 0.0
            )  # Larger ones were worse: there was no time for them.
            contest = 1
        for run in tried[:1]:
            self.settled = run.descent.settled
            while not run.descent.settled and not clock.stopped and self.iterations < self._most:
                yield from self._iterate(run, _ROUND, clock)
                self.settled = run.descent.settled
        while not self._trees.settled and not clock.stopped and "trw" in self.description:
            self._grow_trees(clock.part(_PART_SHARE))
            yield True

    def _trial(self, clock: Clock) -> Generator[bool, None, list[_Run]]:
        """A run along each order, the best first."""
        s = self._structure
        largest = float(np.log2(np.diff(s.table_ptr).max(initial=1)))
        first = min(max(_FIRST_BITS, largest + self._one), self._most_bits)
        tried: list[_Run] = []
        for name, order in candidate_orders(s, _WORK_PER_SECOND * _PLANNING * clock.left, self._seed):
            scopes = OrderedScopes(s, order)
            self.orders.append((name, scopes))
            for bits in (first, largest):  # Where the first takes too long, it is as small as can be.
                least = (_LEAST_TRIAL, _TRIAL_SHARE) if tried else _LEAST_START
                run = self._begin((name, scopes), bits, clock, least)
                if run is not None:
                    yield from self._iterate(run, _TRIAL, clock.part(max(_TRIAL_SHARE, least[1])))
                    tried.append(run)
                    break
        return sorted(tried, key=lambda run: run.descent.best)

    def _begin(
        self, along: tuple[str, OrderedScopes], bits: float, clock: Clock, rounds: tuple[int, float]
    ) -> _Run | None:
        """A bound with clusters of at most 2^bits entries along a named order.

        None where so many iterations would take more than a share of the time left, or too much memory.
        """
        try:
            return self._built(along, bits, clock, rounds)
        except OutOfTime:
            return None

    def _built(
        self, along: tuple[str, OrderedScopes], bits: float, clock: Clock, rounds: tuple[int, float]
    ) -> _Run | None:
        (name, scopes), (count, share) = along, rounds
        if _SECONDS_TO_BUILD * self._structure.num_edges > share * clock.left:
            return None
        layers = cover(scopes, bits, clock)
        entries, messages = sizes_of(scopes, layers)
        clusters = sum(int(layer.variables.sum()) for layer in layers)
        needed = (entries + _OVERHEAD * clusters) * self._each * count
        size = entries * _BYTES + messages * _BYTES_PER_MESSAGE
        if needed > share * clock.left or size > self._memory:
            return None
        part = partition(self._structure, scopes, layers, clock)
        bound = WeightedBound(part, self._graph.log_phi, len(layers))
        return _Run(name, scopes, Descent(bound, self._trees.shifts(scopes, part), self._memory), bits)

    def _iterate(self, run: _Run, count: int, clock: Clock) -> Iterator[bool]:
        """Some iterations, in short parts."""
        descent, part = run.descent, run.descent.bound.part
        while count > 0 and not descent.settled and not clock.stopped:
            start, first, most = clock.seconds, descent.iterations, _PART_SHARE * clock.left
            for _ in range(min(count, _PART)):
                if self.iterations >= self._most or not descent.step(clock):
                    count = 0
                    break
                self.iterations += 1
                count -= 1
                if clock.seconds - start > most:
                    break
            done, took = descent.iterations - first, clock.seconds - start
            if done > 1:
                each = took / done / (part.entries + _OVERHEAD * len(part.share))
                self._each = min(self._each, each) if self._measured else each  # Others may have held it up.
                self._measured = True
            if descent.best + self._constant < self.best:
                self.best = descent.best + self._constant
                self._note(run)
            elif self._trees.best <= self.best and not self._trees.settled:
                self._grow_trees(Clock(took, whole=clock))  # As long as they are ahead they get as much time.
            yield True

    def _note(self, run: _Run) -> None:
        """Keep what the best run says besides its bound."""
        bound = run.descent.bound
        self.largest, self.layers = int(np.diff(bound.part.buckets.table).max(initial=0)), bound.layers
        self.description = (
            f"above {self.layers} layers in the order {run.name!r}, clusters of up to {self.largest} entries"
        )
        self.marginals = self._marginals(bound, run.scopes)

    def begin(self, clock: Clock) -> None:
        """A first bound from `trw`, which is there in a moment and holds however early it is stopped."""
        self._grow_trees(clock.part(_FIRST_SHARE))

    def _grow_trees(self, clock: Clock) -> None:
        """Sweep over the trees until the clock stops."""
        self._trees.advance(clock)
        if self._trees.best < self.best:
            self.best, self.description = self._trees.best, "above trees by trw"
            self.marginals = self._trees.marginals()

    def _marginals(self, bound: WeightedBound, scopes: OrderedScopes) -> FloatArray:
        """[x] what the layers agree on at the end; uniform before a gradient was computed."""
        s = self._structure
        p = bound.beliefs()[np.repeat(scopes.place, s.card), place_in_row(s.state_ptr)]
        total = np.repeat(np.add.reduceat(p, s.state_ptr[:-1]), s.card)
        uniform = np.repeat(1.0 / s.card, s.card)
        return np.where(total > 0.0, p / np.where(total > 0.0, total, 1.0), uniform)
