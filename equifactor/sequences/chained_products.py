"""The step from one slice to the next: a large table times small ones, with sums or maxima over variables that leave.

The state of a slice is a table [N, *cards]. It is multiplied by one group of tables after the other. A variable is
summed out with the last group that has it. Groups are merged beforehand where the product of a few larger groups is
cheaper: eighteen binary chains go through BLAS as five groups of 2^7 to 2^8 entries, not as eighteen of four.

Symbols: a variable of the slice before has its number i, a variable of the slice itself V + i.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

    Scope = tuple[int, ...]

# Seconds of one step, measured with OpenBLAS on one core: a call, an entry that is read and written, and a product.
_CALL, _ENTRY = 6e-6, 6e-10
_PRODUCT = {True: 4e-11, False: 3e-10}  # of sums, which BLAS takes; of maxima, taken by rows
_MOST_MERGED = 2**16  # Entries of a merged group: half a megabyte, which stays in the cache.


@dataclass(frozen=True, eq=False)
class Factor:
    """A table over some variables; entries are probabilities, or their logarithms where maxima are taken."""

    scope: Scope
    table: FloatArray  # [*cards of the scope]


def product(factors: Sequence[Factor], scope: Scope, logs: bool = False) -> Factor:
    """Return the product of factors as one table over `scope`, which holds all their variables."""
    total: FloatArray | float = 0.0 if logs else 1.0
    for f in factors:
        order = sorted(range(len(f.scope)), key=lambda k, f=f: scope.index(f.scope[k]))  # type: ignore[misc]
        shape = [1] * len(scope)
        for k in order:
            shape[scope.index(f.scope[k])] = f.table.shape[k]
        table = f.table.transpose(order).reshape(shape)
        total = total + table if logs else total * table
    return Factor(scope, np.asarray(total, np.float64))


def eliminated(factors: Sequence[Factor], keep: Scope, logs: bool = False) -> Factor:
    """Return the product of factors with all variables but `keep` summed out, or maximised where they are logs.

    The next variable is the one whose product has the fewest variables. Meant for small tables.
    """
    left = list(factors)
    gone = {v for f in left for v in f.scope} - set(keep)
    while gone:
        around = {v: {u for f in left if v in f.scope for u in f.scope} for v in gone}
        v = min(gone, key=lambda v: (len(around[v]), v))
        gone.remove(v)
        scope = (*sorted(around[v] - {v}), v)
        whole = product([f for f in left if v in f.scope], scope, logs).table
        left = [f for f in left if v not in f.scope]
        left.append(Factor(scope[:-1], whole.max(axis=-1) if logs else whole.sum(axis=-1)))
    missing = tuple(v for v in keep if not any(v in f.scope for f in left))
    if missing:
        raise ValueError(f"no factor has the variables {missing}")
    return product(left, keep, logs)


@dataclass(frozen=True, eq=False)
class _ProductStep:
    """One product: axes of the state in the order [both and kept, state alone, summed], and the group to match."""

    axes: tuple[int, ...]  # of the state [N, ..]: both and kept, N and the state alone, summed; of logs, summed second
    sizes: tuple[int, int, int]  # entries of both and kept, of summed, of the group alone
    group: FloatArray  # [both and kept, summed, group alone]
    shape: tuple[int, ...]  # of the result: both and kept, -1 for N, the state alone, the group alone
    back: tuple[int, ...]  # brings N to the front of the result


class ChainedProduct:
    """A state over `start` times all groups, summed or maximised to a state over `end`.

    Args:
        start: the variables of the given state.
        end: the variables of the result.
        groups: the factors, together over all variables of `end` that are not in `start`.
        card: the number of states of each variable.
        logs: whether tables are logs, and maxima are taken.
    """

    def __init__(
        self, start: Scope, end: Scope, groups: Sequence[Factor], card: Mapping[int, int], logs: bool = False
    ) -> None:
        self.start, self.end, self._card, self._logs = start, end, card, logs
        self.groups = self._merged(self._ordered(groups))
        scope = list(start)
        self._steps: list[_ProductStep] = []
        self._arrays = [np.empty(0)] * 3
        for k, group in enumerate(self.groups):
            step, scope = self._step(scope, group, self.groups[k + 1 :])
            self._steps.append(step)
        self._last = (0, *(1 + scope.index(v) for v in end))

    def __call__(self, state: FloatArray) -> FloatArray:
        """Return the state [N, *end] of a state [N, *start]. The next call may overwrite it.

        Variables leave at the front and come in at the end, so chains in their order are never copied.
        """
        for k, step in enumerate(self._steps):
            both, summed, alone = step.sizes
            if self._logs:
                result = self._maxima(k % 2, step, state.transpose(step.axes).reshape(both, summed, -1))
            else:
                a = state.transpose(step.axes).reshape(both, -1, summed)
                result = self._array(k % 2, both, a.shape[1], alone)
                if both == 1:
                    np.matmul(a[0], step.group[0], out=result[0])
                else:
                    np.matmul(a, step.group, out=result)
            state = result.reshape(step.shape).transpose(step.back)
        return np.ascontiguousarray(state.transpose(self._last))

    def _maxima(self, place: int, step: _ProductStep, a: FloatArray) -> FloatArray:
        """Return the maxima [both, rest, alone] of a state [both, summed, rest] plus the group, in long rows."""
        both, summed, alone = step.sizes
        result, row = self._array(place, both, alone, a.shape[2]), self._array(2, both, a.shape[2])
        for y in range(alone):
            np.add(a[:, 0], step.group[:, 0, y, None], out=result[:, y])
            for x in range(1, summed):
                np.maximum(result[:, y], np.add(a[:, x], step.group[:, x, y, None], out=row), out=result[:, y])
        return result.transpose(0, 2, 1)

    def _array(self, place: int, *shape: int) -> FloatArray:
        """Return an array that is used again by every second product: new memory costs as much as a product."""
        size = math.prod(shape)
        if self._arrays[place].size < size:
            self._arrays[place] = np.empty(size)
        return self._arrays[place][:size].reshape(shape)

    def _needed(self, later: Sequence[Factor]) -> set[int]:
        return {*self.end}.union(*(f.scope for f in later))

    def _ordered(self, groups: Sequence[Factor]) -> list[Factor]:
        """Return the groups in an order in which the state stays small."""
        left, order, scope = list(groups), list[Factor](), {*self.start}
        while left:
            sizes = []
            for k, group in enumerate(left):
                after = (scope | {*group.scope}) & self._needed([*left[:k], *left[k + 1 :]])
                sizes.append(self._entries(after))
            k = int(np.argmin(sizes))
            group = left.pop(k)
            order.append(group)
            scope = (scope | {*group.scope}) & self._needed(left)
        return order

    def _merged(self, groups: list[Factor]) -> list[Factor]:
        """Return the groups after merging neighbours as long as that saves time."""
        cost = self._cost(groups)
        while len(groups) > 1:
            options = []
            for k in range(len(groups) - 1):
                union = tuple(dict.fromkeys((*groups[k].scope, *groups[k + 1].scope)))
                if self._entries(union) <= _MOST_MERGED:
                    whole = Factor(union, np.empty(0))
                    options.append((self._cost([*groups[:k], whole, *groups[k + 2 :]]), k, union))
            best = min(options, default=None)
            if best is None or best[0] >= cost:
                break
            cost, k, union = best
            groups = [*groups[:k], product(groups[k : k + 2], union, self._logs), *groups[k + 2 :]]
        return groups

    def _cost(self, groups: Sequence[Factor]) -> float:
        """Return the estimated seconds of all steps; tables of the groups are not looked at."""
        scope, total = {*self.start}, 0.0
        for k, group in enumerate(groups):
            joint = scope | {*group.scope}
            after = joint & self._needed(groups[k + 1 :])
            entries = self._entries(scope) + self._entries(after)
            calls = self._entries({*group.scope}) if self._logs else 1  # about two for each pair of states
            total += _CALL * calls + _ENTRY * entries + _PRODUCT[not self._logs] * self._entries(joint)
            scope = after
        return total

    def _entries(self, scope: set[int] | Scope) -> int:
        total = 1
        for v in scope:
            total *= self._card[v]
        return total

    def _step(self, scope: list[int], group: Factor, later: Sequence[Factor]) -> tuple[_ProductStep, list[int]]:
        needed = self._needed(later)
        both = [v for v in scope if v in group.scope and v in needed]
        gone = [v for v in scope if v not in needed]
        if set(gone) - set(group.scope):  # of no group at all: it is multiplied by ones, and summed
            ones = [v for v in gone if v not in group.scope]
            cards = [self._card[v] for v in ones]
            extra = Factor(tuple(ones), np.full(cards, 0.0 if self._logs else 1.0))
            group = product([group, extra], (*group.scope, *ones), self._logs)
        alone = sorted(v for v in group.scope if v not in scope)
        # Those that are used first come first. Then the axes of later products are neighbours, and are not copied.
        next_use = {v: k for k, f in reversed([*enumerate(later)]) for v in f.scope}
        rest = [v for v in scope if v in needed and v not in group.scope]
        rest.sort(key=lambda v: next_use.get(v, len(later)))
        spare = [v for v in alone if v not in needed]
        if spare:
            group = eliminated([group], tuple(v for v in group.scope if v not in spare), self._logs)
            alone = [v for v in alone if v in needed]
        place = {v: k + 1 for k, v in enumerate(scope)}
        table = group.table.transpose([group.scope.index(v) for v in (*both, *gone, *alone)])
        sizes = self._entries(tuple(both)), self._entries(tuple(gone)), self._entries(tuple(alone))
        cards = [self._card[v] for v in (*rest, *alone)]
        last, middle = [place[v] for v in gone], [0, *(place[v] for v in rest)]
        order = [*last, *middle] if self._logs else [*middle, *last]
        step = _ProductStep(
            axes=(*(place[v] for v in both), *order),
            sizes=sizes,
            group=np.ascontiguousarray(table).reshape(sizes),
            shape=(*(self._card[v] for v in both), -1, *cards),
            back=(len(both), *range(len(both)), *range(len(both) + 1, len(both) + 1 + len(cards))),
        )
        return step, [*both, *rest, *alone]
