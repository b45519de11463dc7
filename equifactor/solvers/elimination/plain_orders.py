"""Elimination orders in plain Python: for models that are planned sooner than the kernels of `orders.py` are loaded."""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from equifactor.base.clock import Clock
from equifactor.solvers.elimination.orders import NoOrder, Order, PlanningLimits

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from equifactor.graph.structure import Structure

_MOST_STEPS = 1.5e6  # Set operations, 0.5 to 0.9 us each, after which the planner gives up: about one second.
_LEAST_STEPS = 2e5  # Set operations that a limit on the work of planning always leaves before the deadline: 0.1 s.
_LOOK_EVERY = 2e4  # Set operations between two looks at the clock: about 0.02 s.
_STEP_WORK = 50.0  # List operations of the kernels, 1e-8 s each, that take as long as one set operation.
_STEP_ENTRIES = 30.0  # Table entries that plain elimination computes in the time of one set operation.
_TIE = 1e-4  # The price of one bit of a table, in fill edges: among equal fill the smaller table comes first.
# The rules: least fill, or least growth of the tables with this weight of an entry that is replaced; see `by_growth`.
_RULES: tuple[Literal["fill"] | int, ...] = ("fill", 2, 4)
_KEPT = 64  # Orders that `known_order` keeps, the most recently used. Chosen by hand.
# The last search in a structure: its limits, whether larger ones would change nothing, and the order that it found.
_known: OrderedDict[tuple[bytes, bytes, bytes], tuple[PlanningLimits, bool, Order]] = OrderedDict()


class _OutOfStepsError(Exception):
    """The planner has made as many set operations as it may."""


class Steps(NamedTuple):
    """An order of some variables, such as those of one component, and what it costs."""

    entries: int  # of all tables
    variables: list[int]  # in the order of elimination
    separators: list[set[int]]  # of each variable, the neighbours that it has when it is eliminated


def plain_order(structure: Structure, limits: PlanningLimits) -> Order | NoOrder | None:
    """Return a greedy elimination order, as `best_order` does; None if planning would take more than about a second.

    The rules are least fill, with ties broken by table size, and least table size. Each component keeps the order with
    the fewest table entries. Later rules are tried only if they cost less than they can save. There is no randomness.

    Cost: below 1 ms for a grid of 8 x 8 variables, 0.05 s for one of 10 x 100.
    """
    return _search(Planner(structure, limits), structure.num_vars)


def _search(planner: Planner, num_vars: int) -> Order | NoOrder | None:
    try:
        components = planner.components()
        found = [planner.best(part) for part in components]
    except _OutOfStepsError:
        return NoOrder(max(1.0, planner.largest), planner.tries, True) if planner.is_limited else None
    if any(own is None for own in found):
        return NoOrder(planner.largest, planner.tries, False)
    return placed([own for own in found if own is not None], num_vars, planner.tries)


def known_order(structure: Structure, limits: PlanningLimits) -> Order | NoOrder | None:
    """Return the order that a search found before for an equal structure, or the one that `plain_order` finds now.

    A search that met no limit finds the same order with larger limits.
    """
    key = structure.card.tobytes(), structure.scope_ptr.tobytes(), structure.scope_vars.tobytes()
    if key in _known:
        before, is_free, order = _known[key]
        if limits == before or (is_free and all(new >= old for new, old in zip(limits, before, strict=True))):
            _known.move_to_end(key)
            return order
    planner = Planner(structure, limits)
    found = _search(planner, structure.num_vars)
    if isinstance(found, Order):  # a search that the clock cut short is made again
        _known[key] = limits, planner.is_free, found
        _known.move_to_end(key)
        if len(_known) > _KEPT:
            _known.popitem(last=False)
    return found


def plain_order_seconds(structure: Structure) -> float:
    """Return about how long `plain_order` takes: per variable, and per pair of variables that share a factor."""
    return 6e-5 * structure.num_vars + 1e-6 * float(np.square(structure.arity.astype(float)).sum())


class Planner:
    """The graph of variables that share a factor, the limits, and the set operations made so far."""

    def __init__(self, structure: Structure, limits: PlanningLimits) -> None:
        self.card: list[int] = structure.card.tolist()
        self.limits = limits
        own = max(_LEAST_STEPS, limits.work / _STEP_WORK)
        self.is_limited = own < _MOST_STEPS  # whether the caller's limit is the lower one
        self.most_steps = min(own, _MOST_STEPS)
        self.steps = 0.0
        self._look_at = _LOOK_EVERY
        self.tries = 0
        self.is_free = limits.tries >= len(_RULES)  # whether larger limits would change nothing
        self.largest = 0.0  # bits of the largest table of a try that failed; the least of all rules
        self.near: list[set[int]] = [set() for _ in self.card]  # the neighbours of each variable
        self._ptr: list[int] = structure.scope_ptr.tolist()
        self._vars: list[int] = structure.scope_vars.tolist()
        self._join(np.flatnonzero(structure.arity > 1).tolist())

    def _join(self, factors: Sequence[int]) -> None:
        """Make the variables of each factor neighbours."""
        near, ptr, scope = self.near, self._ptr, self._vars
        for a in factors:
            start, stop = ptr[a], ptr[a + 1]
            if stop - start == 2:
                i, j = scope[start], scope[start + 1]
                near[i].add(j)
                near[j].add(i)
                continue
            self.steps += 0.1 * (stop - start) ** 2
            if self.steps > self.most_steps:
                return  # `components` raises
            for i in scope[start:stop]:
                near[i].update(scope[start:stop])
        for i, own in enumerate(near):
            own.discard(i)

    def scope(self, factor: int) -> Sequence[int]:
        """Return the variables of one factor."""
        return self._vars[self._ptr[factor] : self._ptr[factor + 1]]

    @cached_property
    def factors(self) -> list[list[int]]:
        """The factors of each variable."""
        found: list[list[int]] = [[] for _ in self.card]
        for a in range(len(self._ptr) - 1):
            for i in self.scope(a):
                found[i].append(a)
        return found

    def spend(self, steps: float) -> None:
        """Count set operations; raise if they exceed the limit."""
        self.steps += steps
        self.check()

    def check(self) -> None:
        """Raise if the set operations exceed the limit, or the deadline of the call has passed."""
        if self.steps > self.most_steps:
            raise _OutOfStepsError
        if self.steps > self._look_at:
            self._look_at = self.steps + _LOOK_EVERY
            if Clock.left_of_call() <= 0.0:
                self.is_limited = True
                raise _OutOfStepsError

    def components(self) -> list[list[int]]:
        """Return the variables of each component, by the lowest variable of each."""
        self.spend(0.1 * sum(map(len, self.near)))
        seen = [False] * len(self.near)
        found = []
        for root in range(len(seen)):
            if seen[root]:
                continue
            seen[root] = True
            part = [root]
            for i in part:
                for j in self.near[i]:
                    if not seen[j]:
                        seen[j] = True
                        part.append(j)
            found.append(part)
        return found

    def best(self, part: Sequence[int]) -> Steps | None:
        """Return the best order of one component; None if every rule exceeds the limits on memory."""
        if len(part) == 1:
            return Steps(self.card[part[0]], [part[0]], [set()])
        best: Steps | None = None
        least = math.inf  # bits at which the rules failed
        for n, rule in enumerate(_RULES[: self.limits.tries]):
            before = self.steps
            self.tries = max(self.tries, n + 1)
            found = self._eliminate(part, rule, math.inf if best is None else best.entries)
            if isinstance(found, Steps):
                best = found
            else:
                least = min(least, found)
            if best is not None and best.entries < _STEP_ENTRIES * (self.steps - before):
                break
        if best is None:
            self.largest = max(self.largest, least)
        return best

    def _eliminate(self, part: Sequence[int], rule: Literal["fill"] | int, most: float) -> Steps | float:
        """Return the order of one rule, or the bits of the table at which it exceeded the limits or `most` entries."""
        near = {i: set(self.near[i]) for i in part}
        card, limits = self.card, self.limits
        size = {i: card[i] * math.prod([card[j] for j in near[i]]) for i in part}  # of the table if i is eliminated now
        prices = _FillPrices(near, size, self) if rule == "fill" else _GrowthPrices(near, size, self, rule)
        key = {i: prices.of(i) for i in part}
        heap = [(k, i) for i, k in key.items()]
        heapify(heap)
        found = Steps(0, [], [])
        entries = kept = largest = 0
        while heap:
            k, v = heappop(heap)
            if key[v] != k:
                continue  # a later key of this variable is in the heap, or it was eliminated
            key[v] = math.inf
            around = near[v]
            message = size[v] // card[v]
            largest = max(largest, size[v])
            entries += size[v]
            kept += message
            if kept > limits.kept or message > limits.message:
                self.is_free = False
                return math.log2(largest)
            if entries >= most:
                return math.log2(largest)
            found.variables.append(v)
            found.separators.append(around)
            for i in around:
                near[i].remove(v)
                size[i] //= card[v]
            for i in prices.connect(v, around, message):
                new = prices.of(i)
                if new != key[i]:
                    key[i] = new
                    heappush(heap, (new, i))
            try:
                self.check()
            except _OutOfStepsError:
                self.largest = math.log2(largest)
                raise
        return found._replace(entries=entries)


class _FillPrices:
    """The price of a variable is the number of pairs of its neighbours that are not neighbours of each other."""

    def __init__(self, near: dict[int, set[int]], size: dict[int, int], planner: Planner) -> None:
        self.near, self.size, self.card, self.planner = near, size, planner.card, planner
        self.fill = {}
        for i, around in near.items():
            d = len(around)
            planner.spend(d + 0.02 * d * d)
            joined = sum([len(around & near[j]) for j in around])
            self.fill[i] = (d * (d - 1) - joined) // 2

    def of(self, i: int) -> float:
        """Return the price of one variable; among equal fill the smaller table comes first."""
        return self.fill[i] + _TIE * math.log2(self.size[i])

    def connect(self, v: int, around: set[int], message: int) -> set[int]:
        """Make all variables of the separator of v neighbours; return those whose prices change."""
        near, size, card, fill = self.near, self.size, self.card, self.fill
        count = len(around) - 1
        if fill[v] == 0:
            self.planner.steps += count + 1
            for i in around:
                fill[i] -= len(near[i]) - count  # pairs of v and a neighbour outside
            return around
        for i in around:
            fill[i] -= len(near[i] - around)
        changed, left = set(around), set(around)
        steps = 2.0 * count
        for i in around:
            left.remove(i)
            own = near[i]
            for j in left - own:
                other = near[j]
                common = own & other
                shared = len(common)
                fill[i] += len(own) - shared
                fill[j] += len(other) - shared
                for k in common:
                    fill[k] -= 1
                changed |= common
                own.add(j)
                other.add(i)
                size[i] *= card[j]
                size[j] *= card[i]
                steps += 2.0 + 0.3 * shared
        self.planner.steps += steps
        return changed


class _GrowthPrices:
    """The price of a variable is the entries of its message beyond `balance` times those of the tables it replaces."""

    def __init__(self, near: dict[int, set[int]], size: dict[int, int], planner: Planner, balance: int) -> None:
        self.near, self.size, self.planner, self.balance = near, size, planner, balance
        card = self.card = planner.card
        planner.spend(2.0 * len(near))
        # The tables of each variable, their scopes and entries. A factor has its own number, a message that of its
        # variable, less the number of variables.
        self.tables = {i: set(planner.factors[i]) for i in near}
        self.scopes: dict[int, Collection[int]] = {t: planner.scope(t) for own in self.tables.values() for t in own}
        self.entries = {t: math.prod([card[j] for j in scope]) for t, scope in self.scopes.items()}
        self.load = {i: sum([self.entries[t] for t in own]) for i, own in self.tables.items()}

    def of(self, i: int) -> float:
        """Return the price of one variable."""
        return self.size[i] // self.card[i] - self.balance * self.load[i]

    def connect(self, v: int, around: set[int], message: int) -> set[int]:
        """Make all variables of the separator of v neighbours; return those whose prices change."""
        near, size, card, load, tables = self.near, self.size, self.card, self.load, self.tables
        self.planner.steps += len(around) + 0.05 * len(around) ** 2
        for t in tables.pop(v):
            entries = self.entries[t]
            for i in self.scopes[t]:
                if i != v:
                    tables[i].remove(t)
                    load[i] -= entries
        new = v - len(card)
        self.scopes[new], self.entries[new] = around, message
        for i in around:
            tables[i].add(new)
            load[i] += message
            missing = around - near[i]
            missing.discard(i)
            if missing:
                near[i] |= missing
                size[i] *= math.prod([card[j] for j in missing])
        return around


def placed(found: Sequence[Steps], num_vars: int, tries: int) -> Order:
    """Return the order of all variables, in post order: every subtree of clusters is one run."""
    order: list[int] = []
    separator: list[set[int]] = [set()] * num_vars
    for own in found:
        first = {v: n for n, v in enumerate(own.variables)}
        children: list[list[int]] = [[] for _ in own.variables]
        for n, around in enumerate(own.separators):
            separator[own.variables[n]] = around
            if around:
                children[min([first[i] for i in around])].append(n)
        stack, backwards = [n for n, around in enumerate(own.separators) if not around], []  # the roots
        while stack:
            n = stack.pop()
            backwards.append(own.variables[n])
            stack += children[n]
        order += reversed(backwards)
    place = [0] * num_vars
    for n, v in enumerate(order):
        place[v] = n
    sep_ptr, separators, parent = [0], [], []
    for v in order:
        own_places = sorted([place[i] for i in separator[v]], reverse=True)
        separators += own_places
        sep_ptr.append(len(separators))
        parent.append(own_places[-1] if own_places else -1)
    variables, ptr, places, up = (np.array(values, np.int64) for values in (order, sep_ptr, separators, parent))
    return Order(variables, ptr, places, up, tries)
