"""Circuits as short programs: constants folded into coefficients, equal nodes joined, sums of one length in runs.

A value of the program is the ratio of the sum below a node to the same sum without evidence: it lies between 0 and 1.
Value 0 is the constant 1, the leaves follow, then the nodes. Every node is a sum of terms, and a term is a coefficient
times two values. So is the derivative of the root by a value: a sum of derivatives times values.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.solvers.counting.circuit import LiteralCircuit

_ONE = 0  # The place of the constant 1 among the values.
_SAME = 2.0**45  # Coefficients whose mantissas are equal after rounding to this many parts count as equal.
_Term = tuple[float, int, int]  # a coefficient and the places of two values


class CircuitSums(NamedTuple):
    """CircuitSums of terms, in an order in which every sum comes after those that it uses."""

    places: NDArray[np.int32]  # [k] where the result of each sum goes
    coefficients: FloatArray  # [terms]
    factors: NDArray[np.int32]  # [2 terms] the places of both values of each term
    run_terms: IntArray  # [runs] the number of terms of each sum of a run
    run_end: IntArray  # [runs] the sum behind the last one of a run


class CircuitProgram(NamedTuple):
    """The sums from the leaves to the root."""

    upward: CircuitSums
    leaf: IntArray  # [2n] the place of the value of each literal, -1 for literals that are constant
    root: int  # the place of the value of the whole circuit
    num_values: int
    least: float  # log of a lower bound on every sum that is not zero


def program_of(circuit: LiteralCircuit, is_open: BoolArray) -> CircuitProgram:
    """Return a program for the sum of a circuit.

    Args:
        circuit: the circuit; its sum must be positive.
        is_open: [2n] the literals whose weights may change. All others keep the weights of the circuit.
    """
    from equifactor.solvers.counting.circuit_kernels import sum_up

    branch, leaf = np.empty((circuit.num_nodes, 2)), circuit.log_weights_of_leaves
    sum_up(circuit.node_ptr, circuit.arena, leaf, branch)
    with np.errstate(invalid="ignore"):
        share = np.nan_to_num(np.exp(branch - np.logaddexp(branch[:, 0], branch[:, 1])[:, None]))
        free = np.nan_to_num(np.exp(leaf[: len(is_open)] - np.repeat(leaf[len(is_open) :], 2)))
    builder = _ProgramBuilder(is_open, free.tolist())
    sizes, items = _open_items(circuit, is_open)
    left = iter(items)
    for shares, own in zip(share.tolist(), sizes.tolist(), strict=True):
        branches = [(p, [*islice(left, size)]) for p, size in zip(shares, own, strict=True)]
        builder.add_node([(p, found) for p, found in branches if p > 0.0])
    return builder.program()


def _open_items(circuit: LiteralCircuit, is_open: BoolArray) -> tuple[IntArray, list[int]]:
    """Return the number [nodes, 2] of items of each branch that are not constant leaves, and all those items."""
    at = circuit.node_ptr[:-1, None] + np.arange(2)
    size = np.maximum(circuit.arena[at], 0)
    is_item = np.ones(len(circuit.arena), bool)
    is_item[at] = False
    items = circuit.arena[is_item]
    kept = items < 0
    kept[~kept] = np.append(is_open, is_open[::2] | is_open[1::2])[items[~kept]]
    owner = np.repeat(np.arange(size.size), size.ravel())[kept]
    return np.bincount(owner, minlength=size.size).reshape(-1, 2), items[kept].tolist()


class _ProgramBuilder:
    """Adds sums that are not there yet.

    Args:
        is_open: [2n] the literals with a leaf.
        free: [2n] the share of each literal in the sum of both literals of its variable.
    """

    def __init__(self, is_open: BoolArray, free: list[float]) -> None:
        self.free = free
        self.leaf = np.where(is_open, np.cumsum(is_open), -1)
        self.leaves = self.leaf.tolist()
        self.first = 1 + int(is_open.sum())  # the place of the first sum
        self.sums: list[tuple[_Term, ...]] = []
        self.known: dict[tuple[Any, ...], int] = {}
        self.least = [0.0] * self.first  # of each value, the log of a lower bound where it is not zero
        self.place: list[int] = []  # of each node; `_ONE` for constants

    def add_node(self, terms: list[tuple[float, list[int]]]) -> None:
        """Add the next node, a sum of products of items with a coefficient each; the coefficients sum to 1."""
        self.place.append(self._sum([(p, *self._pair(items)) for p, items in terms]))

    def _pair(self, items: list[int]) -> tuple[int, int]:
        """Return the places of two values whose product is that of the items, the larger one first."""
        places = sorted(x for x in map(self._item, items) if x != _ONE)
        while len(places) > 2:  # leaves come first, and are multiplied last
            last = places.pop()
            places.append(self._sum([(1.0, last, places.pop())]))
        high, low = (*reversed(places), _ONE, _ONE)[:2]
        return high, low

    def _item(self, item: int) -> int:
        """Return the place of the value of an item."""
        if item < 0:
            return self.place[-1 - item]
        if item < len(self.leaves):
            return self.leaves[item]
        yes = 2 * (item - len(self.leaves))
        return self._sum([(self.free[x], max(_ONE, self.leaves[x]), _ONE) for x in (yes, yes + 1) if self.free[x] > 0])

    def _sum(self, terms: list[_Term]) -> int:
        """Return the place of a sum of one or two terms whose coefficients sum to 1; `_ONE` without terms."""
        terms.sort(key=lambda term: term[1:])
        if not terms or terms[0][1:] == terms[-1][1:]:
            pair = terms[0][1:] if terms else (_ONE, _ONE)
            if pair[1] == _ONE:
                return pair[0]
            terms = [(1.0, *pair)]
        mantissa, exponent = math.frexp(terms[0][0])
        key = (*[term[1:] for term in terms], round(mantissa * _SAME), exponent)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.first + len(self.sums)
            self.sums.append(tuple(terms))
            self.least.append(min(math.log(p) + self.least[a] + self.least[b] for p, a, b in terms))
        return found

    def program(self) -> CircuitProgram:
        """Return the sums that the last node needs."""
        root = self.place[-1]
        self._join(root)
        needed = {root}
        for k in range(len(self.sums) - 1, -1, -1):
            if self.first + k in needed:
                needed.update(x for _, *pair in self.sums[k] for x in pair)
        places = [x for x in sorted(needed) if x >= self.first]
        rank = {x: n for n, x in enumerate(places)}
        sums = [self.sums[x - self.first] for x in places]
        upward = _in_runs(places, sums, [{rank[x] for _, *pair in own for x in pair if x in rank} for own in sums])
        new = np.arange(self.first + len(self.sums), dtype=np.int32)
        new[upward.places] = self.first + np.arange(len(places))
        upward = upward._replace(places=new[upward.places], factors=new[upward.factors])
        return CircuitProgram(upward, self.leaf, int(new[root]), self.first + len(places), self.least[root])

    def _join(self, root: int) -> None:
        """Make every sum that only one other sum uses, as a term of its own, a part of that sum."""
        uses = [0] * (self.first + len(self.sums))
        uses[root] = 1
        for k in range(len(self.sums) - 1, -1, -1):
            if uses[self.first + k]:
                for _, a, b in self.sums[k]:
                    uses[a] += 1
                    uses[b] += 1
        for k, terms in enumerate(self.sums):
            joined: list[_Term] = []
            for p, a, b in terms:
                inside = b == _ONE and a >= self.first and uses[a] == 1
                joined += [(p * q, c, d) for q, c, d in self.sums[a - self.first]] if inside else [(p, a, b)]
            self.sums[k] = tuple(joined)


def downward(program: CircuitProgram, asked: IntArray) -> CircuitSums:
    """Return the derivatives of the root by the leaves at some places; the derivative by the root is given.

    The first factor of each term is a derivative, the second one a value of the program.
    """
    up = program.upward
    sizes = np.repeat(up.run_terms, np.diff(up.run_end, prepend=0))
    wanted = [False] * program.num_values
    for x in asked.tolist():
        wanted[x] = True
    uses: list[list[_Term]] = [[] for _ in wanted]
    left = iter(zip(up.coefficients.tolist(), up.factors[::2].tolist(), up.factors[1::2].tolist(), strict=True))
    for place, size in zip(up.places.tolist(), sizes.tolist(), strict=True):
        for p, a, b in islice(left, size):
            wanted[place] |= wanted[a] or wanted[b]
            uses[a].append((p, place, b))
            uses[b].append((p, place, a))
    places = [x for x, own in enumerate(uses) if own and wanted[x] and x != _ONE]
    rank = {x: n for n, x in enumerate(places)}
    sums = [tuple(uses[x]) for x in places]
    return _in_runs(places, sums, [{rank[a] for _, a, _ in own if a in rank} for own in sums])


def _in_runs(places: list[int], sums: Sequence[tuple[_Term, ...]], needs: list[set[int]]) -> CircuitSums:
    """Return sums in an order in which each comes after those that it needs, given by their numbers in the list.

    A run has sums of one length, and goes on while such a sum is ready: the branches of a kernel are then predicted.
    """
    waiting = [len(need) for need in needs]
    users: list[list[int]] = [[] for _ in sums]
    ready: dict[int, list[int]] = {len(own): [] for own in sums}
    for k, need in enumerate(needs):
        for x in need:
            users[x].append(k)
        if not need:
            ready[len(sums[k])].append(k)
    order: list[int] = []
    run_terms: list[int] = []
    run_end: list[int] = []
    while any(ready.values()):
        size = max(ready, key=lambda size: len(ready[size]))
        while ready[size]:
            k = ready[size].pop()
            order.append(k)
            for user in users[k]:
                waiting[user] -= 1
                if not waiting[user]:
                    ready[len(sums[user])].append(user)
        run_terms.append(size)
        run_end.append(len(order))
    terms = [term for k in order for term in sums[k]]
    return CircuitSums(
        np.array([places[k] for k in order], np.int32), np.array([p for p, _, _ in terms], float),
        np.array([x for _, *pair in terms for x in pair], np.int32),
        np.array(run_terms, np.int64), np.array(run_end, np.int64),
    )  # fmt: skip
