"""Elimination orders: which variable to sum out next, and the clusters that follow from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from equifactor.kernels.pointers import by_number, ptr_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.structure import Structure


MOST_BITS = 500.0  # Larger tables are all equally impossible, and powers of two and their products stay finite.
# Orders tried where many graphs are planned: cutsets while they grow, balls of `loop-bp`. Halved or doubled: CPU of
# `conditioning` within 20 %, error of `loop-bp` within 50 %.
FEW_TRIES = 4
BITS_ROUNDING = 1e-9  # The rounding of sums of bits that is allowed: 1e6 times that of a sum of 30 bits.
# List operations of the first prices, per edge and neighbour of its variable with fewer: 2.7 s for all pairs of 1,000
# variables.
_TRIANGLE = 0.15
# If all rules fail, this many tries without limits, or this many times the work of those before, show how near orders
# come to the limits. Chosen by hand.
_PROBES, _PROBE_WORK = 24, 10.0
# List operations that take as long as calling the kernel of a try: 50 us. Without them, tries with all pairs of 24
# variables take 45 ms beyond a limit of 2 ms.
_CALL_WORK = 2500.0
_MORE = 4  # Tries beyond the limits may be this many times the usual ones.
_WITHIN = 0.9  # The share of the memory that messages may take; the rest is for tables and the inputs of a cluster.
_PATIENCE = 4.0  # Planning that has found no order within the limits may take this many times the usual effort.
_GRAIN = 8.0  # Fill weights are multiples of 1/8: their sums are exact, so a zero stays a zero.

# The rule and the noise of the first tries, by fill or by growth with a balance; see the kernels. Every second later
# try uses the best setting so far. Without any one of them, plans of 32 random graphs have 3 % fewer to 2 % more
# entries, within three standard errors.
_Setting = tuple[Literal["fill", "weighted fill"] | float, float]
_SETTINGS: tuple[_Setting, ...] = (
    ("fill", 0.0), (2.0, 0.0), (4.0, 0.0), ("weighted fill", 0.0), ("fill", 0.1), (2.0, 0.3), ("fill", 0.0), (4.0, 0.3),
)  # fmt: skip


# Settings for tries beyond the limits: the best on four linkage models, whose variables have two to seven states.
_BEYOND: tuple[_Setting, ...] = (
    ("weighted fill", 0.3), ("weighted fill", 1.0), (4.0, 0.3), ("weighted fill", 0.0), (2.0, 1.0), ("fill", 1.0),
)  # fmt: skip


class Order(NamedTuple):
    """An order of variables 0..v-1 and its clusters, as places in the order; subtrees are contiguous runs."""

    variables: IntArray  # [v] in the order of elimination
    sep_ptr: IntArray  # [v+1] pointer to the separator of each cluster
    separators: IntArray  # places of the other variables of each cluster, latest elimination first
    parent: IntArray  # [v] place of the cluster that receives the message, -1 at a root
    tries: int  # number of orders that were tried


class NoOrder(NamedTuple):
    """The tries found no order within the limits."""

    bits: float  # least bits of a table that the tries met before they were abandoned
    tries: int  # number of orders that were tried
    out_of_work: bool  # whether the limit on the work of planning was the reason, not memory


class PlanningLimits(NamedTuple):
    """The limits on the cost of planning, and on the cost of the order that it finds."""

    tries: int = 256  # most orders to try
    # List operations of planning per table entry of the best orders. On 32 random models of eight kinds, planning and
    # running together take 1.0 to 1.8 times as long with 1, and 0.85 to 1.04 times as long with 0.12.
    effort: float = 0.25
    kept: float = math.inf  # entries of all messages of a component, above which a try of it is abandoned
    message: float = math.inf  # entries of one message, above which a try of its component is abandoned
    work: float = math.inf  # list operations, about 1e8 per second, after which planning ends in any case
    near: float = 0.0  # if all rules fail, tries go on if an order exceeds the limits at most this many times


def best_order(
    structure: Structure,
    limits: PlanningLimits = PlanningLimits(),  # noqa: B008 - it is frozen
    seed: int = 0,
) -> Order | NoOrder:
    """Return the cheapest of many randomised greedy orders, by total table entries, component by component.

    Tries alternate between min-fill, weighted min-fill and least growth of the tables. They end when planning has cost
    about as much as running the best order found, so that small models are planned in a fraction of a millisecond. They
    also end when every rule has failed to stay within the limits. If an order comes near to the limits, tries without
    them go on, and the order that is returned may exceed them. The same arguments give the same order.

    Cost O(fill edges x degree) per try: 1 ms for a 20 x 20 grid, 0.1 s for 13,000 sparse variables.
    """
    from equifactor.solvers.elimination import order_kernels as kernels

    ptr, adj = kernels.adjacency(structure.num_vars, structure.scope_ptr, structure.scope_vars)
    degree = np.diff(ptr)
    if _TRIANGLE * float(np.minimum(degree[adj], np.repeat(degree, degree)).sum()) > limits.work:
        return NoOrder(0.0, 0, True)
    label, count = kernels.components(ptr, adj)
    tries = _Tries(structure, ptr, adj, label, count)
    made = tries.run(limits, seed)
    failed = np.isinf(tries.best)
    if failed.any():
        return NoOrder(float(tries.largest[failed].max()), made, tries.work > limits.work)
    order = np.lexsort((tries.place, label))
    parent = kernels.clusters(order, ptr, adj)[2]
    order = order[kernels.post_order(parent)]
    sep_ptr, separators, parent = kernels.clusters(order, ptr, adj)
    return Order(order, sep_ptr, separators, parent, made)


class _Tries:
    """The best of all tries so far, kept per component: a try may be good in one component and bad in another."""

    def __init__(self, structure: Structure, ptr: IntArray, adj: IntArray, label: IntArray, count: int) -> None:
        from equifactor.solvers.elimination.greedy_fill import FillGraph
        from equifactor.solvers.elimination.greedy_growth import GrowthGraph

        s = structure
        bits = np.log2(s.card)
        weight = np.maximum(1.0, np.round(bits * _GRAIN) / _GRAIN)
        self._fill = {
            "fill": tuple(FillGraph(ptr, adj, bits, np.ones(len(bits)))),
            "weighted fill": tuple(FillGraph(ptr, adj, bits, weight)),
        }
        by_variable = by_number(s.scope_vars)
        var_ptr = ptr_of(np.bincount(s.scope_vars, minlength=s.num_vars))
        var_factors = s.factor_of_edge[by_variable]
        self._growth = tuple(GrowthGraph(s.scope_ptr, s.scope_vars, var_ptr, var_factors, bits))
        self.label = label
        self.best = np.full(count, np.inf)  # table entries of each component's best order
        self.largest = np.full(count, np.inf)  # bits of its largest table, or of the table at which the tries failed
        self.kept = np.full(count, np.inf)  # entries of all messages of each component's best order
        self.place = np.zeros(len(label), np.int64)  # place of each variable in the order of its component
        self.work = 0.0

    def run(self, limits: PlanningLimits, seed: int) -> int:
        """Try until it no longer pays; return the number of tries."""
        winner = 0
        rng = random_state(seed)
        for n in range(limits.tries):
            number = winner if n >= len(_SETTINGS) and n % 2 else n % len(_SETTINGS)
            if self._try(_SETTINGS[number], limits, rng):
                winner = number
            total = float(self.best.sum())
            failed = math.isinf(total) and n + 1 >= len(_SETTINGS)
            if failed:
                return self._run_beyond(n + 1, limits, rng)
            if self.work > min(limits.effort * total, limits.work):
                return n + 1
        return limits.tries

    def _run_beyond(self, tried: int, limits: PlanningLimits, rng: NDArray[np.uint64]) -> int:
        """Go on without limits on the memory while it may still pay; return the number of tries.

        Tries vary by factors of ten and more, so one near the limits makes another within them likely.
        """
        first, better, probing, winner = tried, tried, min(limits.work, (1.0 + _PROBE_WORK) * self.work), _BEYOND[0]
        free = limits._replace(kept=math.inf, message=math.inf)
        working = min(limits.work, limits.effort * min(limits.kept, limits.message))
        while tried < _MORE * limits.tries and limits.near > 0.0 and working >= 1.0:
            setting = winner if tried % 2 else _BEYOND[(tried - first) // 2 % len(_BEYOND)]
            if self._try(setting, free, rng):
                winner, better = setting, tried
            self.work += _CALL_WORK
            tried += 1
            if better == first and tried - first >= _PROBES:  # All orders are alike, as those of all pairs.
                break
            probed, excess = self.work > probing or tried - first >= _PROBES, self._excess(limits).max()
            if self.work > (working if excess < _WITHIN else _PATIENCE * working) or (probed and excess > limits.near):
                break
        if tried > first:
            self.best[self._excess(limits) > limits.near] = math.inf
        return tried

    def _excess(self, limits: PlanningLimits) -> FloatArray:
        """Return how many times the best order of each component exceeds the limits on memory."""
        # A component without an order has infinite sizes, which exceed no infinite limit.
        kept, message = self.kept, np.exp2(np.minimum(self.largest, MOST_BITS) - 1.0)
        parts = (sizes / limit for sizes, limit in ((kept, limits.kept), (message, limits.message)) if limit < math.inf)
        return np.maximum.reduce([np.zeros(len(kept)), *parts])

    def _try(self, setting: _Setting, limits: PlanningLimits, rng: NDArray[np.uint64]) -> bool:
        """Make one try; return whether it was the best of some component."""
        from equifactor.solvers.elimination.greedy import TryLimits, TryOutcome
        from equifactor.solvers.elimination.greedy_fill import by_fill
        from equifactor.solvers.elimination.greedy_growth import by_growth

        rule, noise = setting
        entries, kept, largest = np.empty((3, len(self.best)))
        place = np.empty(len(self.label), np.int64)
        most = TryLimits(self.label, self.best, float(limits.kept), float(limits.message), limits.work - self.work)
        records = tuple(most), tuple(TryOutcome(entries, kept, largest, place))
        if isinstance(rule, str):
            self.work += by_fill(self._fill[rule], noise, *records, rng)
        else:
            self.work += by_growth(self._growth, rule, noise, *records, rng)
        better = entries < self.best
        failed = np.isinf(self.best) & ~better
        self.largest = np.where(better, largest, np.where(failed, np.minimum(self.largest, largest), self.largest))
        self.best = np.where(better, entries, self.best)
        self.kept = np.where(better, kept, self.kept)
        self.place = np.where(better[self.label], place, self.place)
        return bool(better.any())


def random_state(seed: int) -> NDArray[np.uint64]:
    """Return a state [1] for the generator of the kernels, mixed so that neighbouring seeds are unrelated."""
    mask = 2**64 - 1
    x = (seed + 1) * 0x9E3779B97F4A7C15 & mask
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
    return np.array([x ^ (x >> 31) or 1], np.uint64)
