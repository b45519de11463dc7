"""Elimination orders: which variable to sum out next, and the clusters that follow from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from equifactor.solvers.elimination.reduction import Reduction
    from equifactor.typing import IntArray


_GRAIN = 8.0  # fill weights are multiples of 1/8: their sums are exact, so a zero stays a zero

# Rule and noise of the first tries, by fill or by growth with a balance; see the kernels. Later tries return every
# other time to the setting that has won so far.
_SETTINGS: tuple[tuple[Literal["fill", "weighted fill"] | float, float], ...] = (
    ("fill", 0.0), (2.0, 0.0), (4.0, 0.0), ("weighted fill", 0.0), ("fill", 0.1), (2.0, 0.3), ("fill", 0.0), (4.0, 0.3),
)  # fmt: skip


class Order(NamedTuple):
    """An order of variables 0..v-1 and its clusters, as places in the order; subtrees are contiguous runs."""

    variables: IntArray  # [v] in the order of elimination
    sep_ptr: IntArray  # [v+1]
    separators: IntArray  # places of the other variables of each cluster, latest elimination first
    parent: IntArray  # [v] place of the cluster that receives the message, -1 at a root
    tries: int


class Hopeless(NamedTuple):
    """No order within the limits was found: the least bits of a table that the tries met before they were given up."""

    bits: float
    tries: int
    out_of_work: bool  # it was not memory, but the work allowed for planning


class Limits(NamedTuple):
    """What planning may cost, and what the order it finds."""

    tries: int = 256
    effort: float = 1.0  # list operations of planning per table entry of the best orders: no more than it can save
    kept: float = math.inf  # entries of all messages of a component, above which a try of it is given up
    message: float = math.inf  # entries of one message, likewise
    work: float = math.inf  # list operations, about 1e8 per second, after which planning ends whatever has been found


def best_order(graph: Reduction, limits: Limits = Limits(), seed: int = 0) -> Order | Hopeless:  # noqa: B008 - frozen
    """The cheapest of many randomised greedy orders, by total table entries, component by component.

    Tries alternate between min-fill, weighted min-fill and least growth of the tables. They end when planning has cost
    about as much as running the best order found, so that small models are planned in a fraction of a millisecond, and
    when every rule has failed to stay within the limits. The same arguments give the same order.

    Cost O(fill edges x degree) per try: 1 ms for a 20 x 20 grid, 0.1 s for 13,000 sparse variables.
    """
    from equifactor.solvers.elimination import order_kernels as kernels

    ptr, adj = kernels.adjacency(len(graph.card), graph.scope_ptr, graph.scope_vars)
    label, count = kernels.components(ptr, adj)
    tries = _Tries(graph, ptr, adj, label, count)
    made = tries.run(limits, seed)
    hopeless = np.isinf(tries.best)
    if hopeless.any():
        return Hopeless(float(tries.largest[hopeless].max()), made, tries.work > limits.work)
    order = np.lexsort((tries.place, label))
    parent = kernels.clusters(order, ptr, adj)[2]
    order = order[kernels.post_order(parent)]
    sep_ptr, separators, parent = kernels.clusters(order, ptr, adj)
    return Order(order, sep_ptr, separators, parent, made)


class _Tries:
    """The best of all tries so far. Each component keeps its own: good in one and bad in another is not lost."""

    def __init__(self, graph: Reduction, ptr: IntArray, adj: IntArray, label: IntArray, count: int) -> None:
        self.graph, self.ptr, self.adj, self.label = graph, ptr, adj, label
        self.bits = np.log2(graph.card)
        self.best = np.full(count, np.inf)  # table entries of each component's best order
        self.largest = np.full(count, np.inf)  # bits of its largest table, or of what the tries met before they failed
        self.place = np.zeros(len(label), np.int64)  # of each variable in the order of its component
        self.work = 0

    def run(self, limits: Limits, seed: int) -> int:
        """Try until it no longer pays; how many tries were made."""
        winner = 0
        for n in range(limits.tries):
            number = winner if n >= len(_SETTINGS) and n % 2 else n % len(_SETTINGS)
            if self._try(number, limits, (seed + 7919 * n) % 2**31):
                winner = number
            total = float(self.best.sum())
            failed = math.isinf(total) and n + 1 >= len(_SETTINGS)
            if failed or self.work > min(limits.effort * total, limits.work):
                return n + 1
        return limits.tries

    def _try(self, number: int, limits: Limits, seed: int) -> bool:
        """One try; whether it was the best of some component."""
        from equifactor.solvers.elimination.greedy_fill import by_fill
        from equifactor.solvers.elimination.greedy_growth import by_growth

        rule, noise = _SETTINGS[number]
        entries, kept, largest = np.empty((3, len(self.best)))
        place = np.empty(len(self.label), np.int64)
        bounds = self.label, self.best, float(limits.kept), float(limits.message), float(limits.work) - self.work
        results = entries, kept, largest, place, seed
        if isinstance(rule, str):
            weight = np.maximum(1.0, np.round(self.bits * _GRAIN) / _GRAIN) if rule != "fill" else np.ones(len(place))
            self.work += by_fill(self.ptr, self.adj, self.bits, weight, noise, *bounds, *results)
        else:
            g = self.graph
            scopes = g.scope_ptr, g.scope_vars, g.var_ptr, g.var_factors
            self.work += by_growth(*scopes, self.bits, rule, noise, *bounds, *results)
        better = entries < self.best
        failed = np.isinf(self.best) & ~better
        self.largest = np.where(better, largest, np.where(failed, np.minimum(self.largest, largest), self.largest))
        self.best = np.where(better, entries, self.best)
        self.place = np.where(better[self.label], place, self.place)
        return bool(better.any())
