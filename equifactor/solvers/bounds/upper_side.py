"""The upper bound of `mini-buckets`: small clusters along several orders first, then larger ones along the best."""

from __future__ import annotations

import math
from collections.abc import Generator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.base.budget import Refusal, Seconds, planning_work
from equifactor.kernels.pointers import place_in_row
from equifactor.solvers.bounds.bound_descent import LEAST_PAIRS, PAIR_BYTES, Descent
from equifactor.solvers.bounds.bucket_partition import partition, sizes_of
from equifactor.solvers.bounds.elimination_orders import PLANNING_SHARE, candidate_orders
from equifactor.solvers.bounds.factor_layers import BITS_MORE, OrderedScopes, OutOfTime, cover
from equifactor.solvers.bounds.tree_start import TreeStart
from equifactor.solvers.bounds.weighted_bound import WeightedBound, work_of
from equifactor.solvers.messages.trw import bound_by_maxima, work_of_start
from equifactor.solving.ladder import Ladder, Step, Steps

if TYPE_CHECKING:
    from equifactor.base.budget import Budget
    from equifactor.base.clock import Clock
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph, FlatGraph

# log2 of the cluster entries in the trial, or room for one variable beside the largest factor. Halved: gap +29 %;
# doubled: gap +41 %.
_FIRST_BITS = 6.0
_TRIAL = 30  # Iterations along each order of the trial. Halved or doubled: gap within 15 %.
# The share of the time left for the bound of `trw`, and for the trial of one order. Halved or doubled: gap within 20 %.
_TRIAL_SHARE = 0.15
# An order is tried if there is time for this many iterations within `_TRIAL_SHARE`. Halved or doubled: gap within 20 %.
_LEAST_TRIAL = 8
# The first order is tried if there is time for this many iterations within this share. Halved or doubled: gap within
# 15 %.
_LEAST_START = 2, 0.5
_SCOPES = 4e-7  # Reference seconds for an edge, to bring scopes into an order: formulas of 656,000 clauses.
_PART = 10  # Iterations between two turns of the lower bound. Halved or doubled: gap within 15 %.
# The share of the time left for the iterations between two turns of the lower bound. Halved or doubled: gap within
# 15 %.
_PART_SHARE = 0.1
_CONTEST = 2  # Orders that are compared at the second size, and kept until then. Chosen by hand.
_ROUND = 120  # Iterations at each size, which bring most of the gain. Halved or doubled: gap within 20 %.
_ENTRY_BYTES = 4  # Bytes of a cluster entry: its probability is a float32.
_MESSAGE_BYTES = 20  # Bytes of a message entry: value and gradient in float64, entropy in float32.
# The share of the time left that the iterations at a new size may take. Halved or doubled: gap within 30 %.
_SIZE_SHARE = 0.8


class _Run(NamedTuple):
    """A descent along one order."""

    name: str
    scopes: OrderedScopes
    descent: Descent
    bits: float  # log2 of the entries that its clusters may have
    bytes: float  # of its tables and messages, and of the pairs that the descent remembers


class UpperSide:
    """The best upper bound so far and where it comes from. Its `ladder` lowers it step by step.

    Args:
        graph: the model, without observed variables.
        most_bits: log2 of the entries that a cluster may have.
        iterations: most iterations at all sizes together.
        seed: the seed of the orders.
        budget: the time, and the memory of tables.
        total: [V] see `WeightedBound`; None for a bound on ln Z.
    """

    def __init__(
        self, graph: FactorGraph, most_bits: float, iterations: int, seed: int, budget: Budget,
        total: FloatArray | None = None,
    ) -> None:  # fmt: skip
        self._total = total
        s = self._structure = graph.structure
        self._graph = graph
        constants = graph.log_phi[s.table_ptr[:-1][s.arity == 0]]
        self._constant = float(constants.sum()) + 2.0**-52 * (len(constants) + 1) * float(np.abs(constants).sum())
        self._one = float(np.log2(s.card.max(initial=2)))
        self._most_bits, self._most, self._seed = most_bits, iterations, seed
        self._budget = budget
        self.best = math.inf
        self.iterations = 0
        self.settled = False  # whether the bound has stopped falling at the last size
        self.orders: list[tuple[str, OrderedScopes]] = []
        self.largest, self.layers = 0, 0
        self.description = "no bound from above"
        self.marginals = np.repeat(1.0 / s.card, s.card)
        self._kept: list[_Run] = []  # The runs whose memory is in use.
        self.ladder = Ladder(self._steps(), budget)

    def _steps(self) -> Steps[float]:
        """Try all orders with the smallest clusters, the two best with larger ones, then the best with growing ones.

        The first step is the bound of `trw`, which is quick and holds even if it is stopped early. If there is no time
        for it, the largest entries of all factors bound ln Z.
        """
        clock = self._budget.clock
        if not self._budget.ends_in_time(work_of_start(self._structure)):
            yield Step(run=self._sum_of_maxima, required=True)
            return
        yield Step(run=lambda: self._sweep_trees(clock.part(_TRIAL_SHARE)), required=True)
        tried = yield from self._trial(clock)
        contest, most = _CONTEST, self._most_bits
        while tried and tried[0].bits < most:
            more = min(tried[0].bits + max(BITS_MORE, self._one), most)
            self._kept = tried = tried[:contest]
            larger = []
            for run in tried:
                next_run = self._begin((run.name, run.scopes), more, (_ROUND, _SIZE_SHARE / contest))
                if next_run is not None:
                    larger.append(next_run)
                    self._kept = [*tried, *larger]
                    yield from self._iterate(next_run, _ROUND, clock)
            if not larger and contest == 1:
                break
            # If there is not enough time for two, there may be enough for one.
            tried = sorted(larger + tried[:1], key=lambda run: run.descent.best)
            if larger and tried[0] not in larger:
                most = 0.0  # Larger clusters gave a worse bound: there was not enough time for them.
            contest = 1
        self._kept = tried[:1]
        for run in self._kept:
            self.settled = run.descent.settled
            while not run.descent.settled and not clock.stopped and self.iterations < self._most:
                yield from self._iterate(run, _ROUND, clock)
                self.settled = run.descent.settled
        while not self._trees.settled and not clock.stopped and "trw" in self.description:
            yield Step(run=lambda: self._sweep_trees(clock.part(_PART_SHARE)))

    def _trial(self, clock: Clock) -> Generator[Step[float], float | Refusal, list[_Run]]:
        """Return a run along each order, the best first."""
        s = self._structure
        largest = float(np.log2(np.diff(s.table_ptr).max(initial=1)))
        first = min(max(_FIRST_BITS, largest + self._one), self._most_bits)
        tried: list[_Run] = []
        most_work = planning_work(PLANNING_SHARE * clock.left, self._budget.speed)
        for name, order in candidate_orders(s, most_work, self._seed, self._budget):
            if not self._budget.ends_in_time(_SCOPES * s.num_edges):
                break
            scopes = OrderedScopes(s, order)
            self.orders.append((name, scopes))
            for bits in (first, largest):  # If the first size takes too long, the smallest possible one is tried.
                least = (_LEAST_TRIAL, _TRIAL_SHARE) if tried else _LEAST_START
                run = self._begin((name, scopes), bits, least)
                if run is not None:
                    yield from self._iterate(run, _TRIAL, clock.part(max(_TRIAL_SHARE, least[1])))
                    tried = self._kept = sorted([*tried, run], key=lambda run: run.descent.best)[:_CONTEST]
                    break
        return tried

    def _begin(self, along: tuple[str, OrderedScopes], bits: float, rounds: tuple[int, float]) -> _Run | None:
        """Return a bound with clusters of at most 2^bits entries along a named order; None if it is not worth starting.

        Args:
            along: the name and the scopes of the order.
            bits: log2 of the entries that a cluster may have.
            rounds: a number of iterations, and the share of the time left that they may take.
        """
        try:
            return self._built(along, bits, rounds)
        except OutOfTime:
            return None

    def _built(self, along: tuple[str, OrderedScopes], bits: float, rounds: tuple[int, float]) -> _Run | None:
        (name, scopes), (count, share), budget = along, rounds, self._budget
        clock = budget.clock
        if not budget.worth_starting(Seconds.LAYER_BUILD * self._structure.num_edges, share):
            return None
        layers = cover(scopes, bits, clock)
        clock.spend(Seconds.LAYER_BUILD * self._structure.num_edges)
        entries, messages = sizes_of(scopes, layers)
        clusters = sum(int(layer.variables.sum()) for layer in layers)
        work = work_of(entries, clusters) * count
        own, others = entries * _ENTRY_BYTES + messages * _MESSAGE_BYTES, sum(run.bytes for run in self._kept)
        if not budget.worth_starting(work, share, own + others + LEAST_PAIRS * PAIR_BYTES * messages):
            return None
        part = partition(self._structure, scopes, layers, clock)
        total = None if self._total is None else self._total[np.argsort(scopes.place)]
        bound = WeightedBound(part, self._graph.log_phi, len(layers), total)
        # Half of the memory that is left stays free for the next run, whose clusters are larger.
        descent = Descent(bound, self._trees.shifts(scopes, part), (budget.memory - own - others) / 2.0)
        run = _Run(name, scopes, descent, bits, own + descent.bytes)
        return run if others + run.bytes <= budget.memory else None

    def _iterate(self, run: _Run, count: int, clock: Clock) -> Steps[float]:
        """Iterate in short parts, so that the lower bound gets its turns."""
        descent, part = run.descent, run.descent.bound.part

        def iterate_part() -> float:
            nonlocal count
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
                self._budget.measure(work_of(part.entries, len(part.share)) * done, took)
            if descent.best + self._constant < self.best:
                self.best = descent.best + self._constant
                self._note(run)
            elif self._trees.best <= self.best and not self._trees.settled:
                self._sweep_trees(clock.within(took))  # While `trw` is ahead, it gets the same time.
            return self.best

        while count > 0 and not descent.settled and not clock.stopped:
            yield Step(run=iterate_part)

    def _note(self, run: _Run) -> None:
        """Keep the description and the marginals of the best run."""
        bound = run.descent.bound
        self.largest, self.layers = int(np.diff(bound.part.buckets.table).max(initial=0)), bound.layers
        self.description = (
            f"above {self.layers} layers in the order {run.name!r}, clusters of up to {self.largest} entries"
        )
        self.marginals = self._marginals(bound, run.scopes)

    @cached_property
    def _trees(self) -> TreeStart:
        return TreeStart(self._graph, self._seed, self._budget.clock)

    @property
    def flat(self) -> FlatGraph[np.ndarray] | None:
        """The compiled graph; None if there was no time for `trw`."""
        return self._trees.flat if "_trees" in self.__dict__ else None

    def _sum_of_maxima(self) -> float:
        """Return the bound from the largest entry of each factor, as if all joint states had it."""
        self.best = bound_by_maxima(self._graph)
        self.description = "above the largest entry of each factor"
        return self.best

    def _sweep_trees(self, clock: Clock) -> float:
        """Sweep over the trees of `trw` until the clock stops; return the best bound."""
        self._trees.advance(clock)
        if self._trees.best < self.best:
            self.best, self.description = self._trees.best, "above trees by trw"
            self.marginals = self._trees.marginals()
        return self.best

    def _marginals(self, bound: WeightedBound, scopes: OrderedScopes) -> FloatArray:
        """Return [x] the marginals that the layers agree on; uniform before a gradient was computed."""
        s = self._structure
        p = bound.beliefs()[np.repeat(scopes.place, s.card), place_in_row(s.state_ptr)]
        total = np.repeat(np.add.reduceat(p, s.state_ptr[:-1]), s.card)
        uniform = np.repeat(1.0 / s.card, s.card)
        return np.where(total > 0.0, p / np.where(total > 0.0, total, 1.0), uniform)
