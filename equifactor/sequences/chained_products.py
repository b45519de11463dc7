"""The step from one slice to the next: a large table times small ones, with sums or maxima over variables that leave.

The state of a slice is a table [N, *cards]. It is multiplied by one group of tables after the other. A variable is
summed out with the last group that has it. Groups are merged beforehand where the product of a few larger groups is
cheaper: eighteen binary chains go through BLAS as five groups of 2^7 to 2^8 entries, not as eighteen of four. Variables
that leave next to each other are replaced where they are, so that the state is not copied.

Symbols: a variable of the slice before has its number i, a variable of the slice itself V + i.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

    Scope = tuple[int, ...]

# Seconds of one step, measured with OpenBLAS on one core: a call, a matrix of it, an entry that is read and written, a
# copied entry, and a product.
_CALL, _MATRIX, _ENTRY, _COPY = 6e-6, 6e-8, 1.6e-10, 6e-10
_PRODUCT = {True: 4e-11, False: 3e-10}  # of sums, which BLAS takes; of maxima, taken by rows
_MOST_MERGED = 2**16  # Entries of a merged group: half a megabyte, which stays in the cache.
_LEAST_ROW = {True: 16, False: 2**14}  # Entries of a row that is not copied: shorter ones took twice as long.


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
    """One product of many small matrices: a block of variables is summed, and new variables take its place."""

    order: tuple[int, ...]  # of the axes of the state [N, ..] in which the block is one; a copy, if they move
    taken: tuple[int, ...]  # the sizes of its blocks, -1 for N and the first variables
    made: tuple[int, ...]  # those of the result
    block: int  # the axis that is summed
    axes: tuple[int, ...]  # bring the axes of the matrices to the end: [summed, row] or [rows, summed]
    group: FloatArray  # [.., new, summed] or [.., summed, new]
    is_left: bool  # whether the group is on the left of the product
    shape: tuple[int, ...]  # of the result: -1 for N, and its variables


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
        scope = [*start]
        self._steps: list[_ProductStep] = []
        self._arrays = [np.empty(0)] * 3
        for k, group in enumerate(self.groups):
            step, scope = self._step(scope, group, [later.scope for later in self.groups[k + 1 :]])
            self._steps.append(step)
        self._last = (0, *(1 + scope.index(v) for v in end))

    def __call__(self, state: FloatArray) -> FloatArray:
        """Return the state [N, *end] of a state [N, *start]. The next call may overwrite it."""
        for k, step in enumerate(self._steps):
            a = state.transpose(step.order).reshape(step.taken).transpose(step.axes)
            size = state.size // step.taken[step.block] * step.made[step.block]
            made = self._array(k % 2, size).reshape(step.made)
            if self._logs:
                self._maxima(step.group, a, made.transpose(step.axes))
            else:
                left, right = (step.group, a) if step.is_left else (a, step.group)
                np.matmul(left, right, out=made.transpose(step.axes))
            state = made.reshape(step.shape)
        return np.ascontiguousarray(state.transpose(self._last))

    def _maxima(self, group: FloatArray, a: FloatArray, out: FloatArray) -> None:
        """Fill out [.., new, row] with the maxima of a [.., summed, row] plus the group [.., new, summed]."""
        spare = self._array(2, out[..., 0, :].size).reshape(out[..., 0, :].shape)
        for y in range(out.shape[-2]):
            best = out[..., y, :]
            np.add(a[..., 0, :], group[..., y, 0, None], out=best)
            for x in range(1, a.shape[-2]):
                np.maximum(best, np.add(a[..., x, :], group[..., y, x, None], out=spare), out=best)

    def _array(self, place: int, size: int) -> FloatArray:
        """Return an array that is used again by every second product: new memory costs as much as a product."""
        if self._arrays[place].size < size:
            self._arrays[place] = np.empty(size)
        return self._arrays[place][:size]

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
        """Return the groups after merging neighbours: the partition with the least estimated time."""
        best: list[tuple[float, list[int], list[tuple[int, int, Scope]]]] = [(0.0, [*self.start], [])]
        for end in range(1, len(groups) + 1):
            later, options = [group.scope for group in groups[end:]], []
            for begin in range(end - 1, -1, -1):
                union = tuple(dict.fromkeys(v for group in groups[begin:end] for v in group.scope))
                if begin < end - 1 and self._entries(union) > _MOST_MERGED:
                    break
                before, scope, steps = best[begin]
                seconds, after = self._seconds(scope, union, later)
                if end == len(groups) and after != [*self.end]:
                    seconds += _COPY * self._entries(after)
                options.append((before + seconds, after, [*steps, (begin, end, union)]))
            best.append(min(options, key=lambda option: option[0]))
        return [product(groups[begin:end], union, self._logs) for begin, end, union in best[-1][2]]

    def _seconds(self, scope: list[int], group: Scope, later: Sequence[Scope]) -> tuple[float, list[int]]:
        """Return the estimated seconds of one step, and the variables after it in their order."""
        before, _, after = self._layout(scope, group, later)
        entries, joint = self._entries(scope), self._entries({*scope, *group})
        total = _ENTRY * (entries + self._entries(after)) + _PRODUCT[not self._logs] * joint
        total += _COPY * entries if before != scope else 0.0
        if self._logs:  # about two calls for each pair of states
            return total + _CALL * self._entries(group), after
        row = self._entries(takewhile(lambda v: v not in group, reversed(before)))
        matrices = self._entries(v for v in before if v in after) / row if row > 1 else 1.0
        return total + _CALL + _MATRIX * matrices, after

    def _layout(self, scope: list[int], group: Scope, later: Sequence[Scope]) -> tuple[list[int], int, list[int]]:
        """Return the variables in the order of a step, the place of those that leave, and the variables after it.

        Neighbours leave where they are, if what follows them ends in a row of other variables.
        """
        needed = {*self.end}.union(*later)
        gone, kept = [v for v in scope if v not in needed], [v for v in scope if v in needed]
        alone = sorted(v for v in group if v not in scope and v in needed)
        first = scope.index(gone[0]) if gone else 0
        behind = scope[first + len(gone) :]
        row = self._entries(takewhile(lambda v: v not in group, reversed(behind)))
        if gone and scope[first : first + len(gone)] == gone and (row >= _LEAST_ROW[not self._logs] or not behind):
            return scope, first, [*scope[:first], *alone, *behind]
        # Those that are used first come first. Then the axes of later products are neighbours, and are not copied.
        next_use = {v: k for k, own in reversed([*enumerate(later)]) for v in own}
        both = [v for v in kept if v in group]
        rest = sorted((v for v in kept if v not in group), key=lambda v: next_use.get(v, len(later)))
        if self._logs:
            return [*both, *gone, *rest], len(both), [*both, *alone, *rest]
        return [*both, *rest, *gone], len(kept), [*both, *rest, *alone]

    def _entries(self, scope: Iterable[int]) -> int:
        total = 1
        for v in scope:
            total *= self._card[v]
        return total

    def _step(self, scope: list[int], group: Factor, later: Sequence[Scope]) -> tuple[_ProductStep, list[int]]:
        needed = {*self.end}.union(*later)
        gone = [v for v in scope if v not in needed]
        ones = [v for v in gone if v not in group.scope]  # of no group at all: multiplied by ones, and summed
        extra = Factor(tuple(ones), np.full([self._card[v] for v in ones], 0.0 if self._logs else 1.0))
        spare = [v for v in group.scope if v not in scope and v not in needed]
        group = product([group, extra], (*group.scope, *ones), self._logs) if ones else group
        group = eliminated([group], tuple(v for v in group.scope if v not in spare), self._logs) if spare else group
        before, first, after = self._layout(scope, group.scope, later)
        alone = [v for v in after if v not in scope]
        front, behind = (
            [(is_both, [*own]) for is_both, own in groupby(part, key=lambda v: v in group.scope)]
            for part in (before[:first], before[first + len(gone) :])
        )
        if not front or front[0][0]:
            front.insert(0, (False, []))  # N alone
        if self._logs and not behind:
            behind = [(False, [])]
        is_left, at = bool(behind), len(front)
        blocks = [*front, (False, gone), *behind]
        sizes = [self._entries(own) for _, own in blocks]
        rows = [k for k, (is_both, _) in enumerate(blocks) if not is_both and k != at]
        row = rows[-1] if is_left else max(rows, key=lambda k: sizes[k])
        batch = [k for k in range(len(blocks)) if k not in (at, row)]
        matrix = (alone, gone) if is_left else (gone, alone)
        axes = [*(v for k in batch for v in blocks[k][1] if blocks[k][0]), *matrix[0], *matrix[1]]
        table = np.ascontiguousarray(group.table.transpose([group.scope.index(v) for v in axes]))
        made = [-1, *sizes[1:]]
        made[at] = self._entries(alone)
        step = _ProductStep(
            order=(0, *(1 + scope.index(v) for v in before)),
            taken=(-1, *sizes[1:]),
            made=tuple(made),
            block=at,
            axes=(*batch, *((at, row) if is_left else (row, at))),
            group=table.reshape(*(sizes[k] if blocks[k][0] else 1 for k in batch), *map(self._entries, matrix)),
            is_left=is_left,
            shape=(-1, *(self._card[v] for v in after)),
        )
        return step, after
