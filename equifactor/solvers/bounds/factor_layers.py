"""Layers: sets of factors, each of bounded width along one common order, that together hold every factor.

A layer is to a mini-bucket what a sheet is to a book: the clusters of one layer form an exact elimination, and a
variable has one cluster in every layer that holds it. Layers that overlap as much as their width allows make tighter
bounds than buckets that are split one by one: five times on a 20x20 grid at the same cluster size.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.clock import Clock
    from equifactor.graph.structure import Structure
    from equifactor.typing import IntArray

LEAST_LAYERS = 4
_LOOKS = 64  # additions between two looks at the clock
_ROUNDING = 1e-9  # of sums of logs of cardinalities


class OutOfTime(Exception):  # noqa: N818 - nothing went wrong
    """The clock stopped while something was being built; what it was is of no use."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Some factors and the clusters that their elimination makes; variables are places in the order, sets are bits."""

    factors: list[int]
    separators: list[int]  # [V] the other variables of each cluster
    variables: int  # those that occur


class OrderedScopes:
    """The scopes of a model along an order.

    Args:
        structure: the model.
        order: [V] the variables in the order of elimination.
    """

    def __init__(self, structure: Structure, order: IntArray) -> None:
        self.order = order
        self.place = np.empty(len(order), np.int64)
        self.place[order] = np.arange(len(order))
        self.card: list[int] = structure.card[order].tolist()
        self.bits: list[float] = np.log2(structure.card[order]).tolist()
        places, ptr = self.place[structure.scope_vars].tolist(), structure.scope_ptr.tolist()
        self.scopes = [sorted(places[a:b]) for a, b in pairwise(ptr)]
        self.masks = [sum(1 << v for v in scope) for scope in self.scopes]
        self.around: list[list[int]] = [[] for _ in self.card]  # the factors of each variable
        for a, scope in enumerate(self.scopes):
            for v in scope:
                self.around[v].append(a)
        self.sequence = sorted((a for a, scope in enumerate(self.scopes) if scope), key=self.scopes.__getitem__)
        by_card: dict[int, int] = {}
        for v, states in enumerate(self.card):
            by_card[states] = by_card.get(states, 0) | 1 << v
        self._kinds = [(float(np.log2(states)), variables) for states, variables in by_card.items()]

    @property
    def num_vars(self) -> int:
        """V, the number of variables."""
        return len(self.card)

    def size(self, variables: int) -> float:
        """log2 of the number of joint states of a set."""
        if len(self._kinds) == 1:
            return self._kinds[0][0] * variables.bit_count()
        return sum(each * (variables & kind).bit_count() for each, kind in self._kinds)

    def largest_factor(self) -> float:
        """log2 of the entries of the largest table."""
        return max(map(self.size, self.masks), default=0.0)

    def distances(self, start: set[int]) -> list[int]:
        """[V] steps from a set of variables, V where there is no way."""
        far = [self.num_vars] * self.num_vars
        for v in start:
            far[v] = 0
        queue = deque(sorted(start))
        while queue:
            v = queue.popleft()
            for a in self.around[v]:
                for u in self.scopes[a]:
                    if far[u] > far[v] + 1:
                        far[u] = far[v] + 1
                        queue.append(u)
        return far


class Growth:
    """The clusters of a growing set of factors, none above a size; raises `OutOfTime` when the clock stops."""

    def __init__(self, scopes: OrderedScopes, most_bits: float, clock: Clock) -> None:
        self._clock = clock
        self._count = 0
        self._scopes = scopes
        self._most = most_bits + _ROUNDING
        self.separators = [0] * scopes.num_vars

    def add(self, scope: int) -> bool:
        """Add a factor unless a cluster would become too large; whether it was added."""
        return self.add_all([scope])

    def add_all(self, scopes: list[int]) -> bool:
        """Add all of some factors or none; whether they were added.

        What is new in a separator goes on to the cluster that receives the message, until nothing is new.
        """
        self._count += 1
        if self._count % _LOOKS == 0 and self._clock.stopped:
            raise OutOfTime
        size, most, separators = self._scopes.size, self._most, self.separators
        before: list[tuple[int, int]] = []
        for scope in scopes:
            first = (scope & -scope).bit_length() - 1
            rest = scope & (scope - 1)
            while rest:
                wider = separators[first] | rest
                if wider == separators[first]:
                    break
                if size(wider | 1 << first) > most:
                    for v, narrower in reversed(before):
                        separators[v] = narrower
                    return False
                before.append((first, separators[first]))
                separators[first] = wider
                first = (wider & -wider).bit_length() - 1
                rest = wider & (wider - 1)
        return True


def cover(scopes: OrderedScopes, most_bits: float, clock: Clock) -> list[Layer]:
    """Layers with clusters of at most 2^most_bits entries, or as the largest factor has.

    Each begins with the factors that no layer holds so far, along the order, and takes in others as long as there is
    room, those nearby first. Where one layer does not hold all, there are at least LEAST_LAYERS: the others begin with
    the factors that the fewest layers hold, from the end of the order. On a 20x20 torus two more layers bring the bound
    from 160 above the best lower one to 10, for 1.6 times the work.
    """
    most_bits = max(most_bits, scopes.largest_factor())
    held = dict.fromkeys(scopes.sequence, 0)
    layers: list[Layer] = []
    while not layers or (min(held.values(), default=1) == 0 or 1 < len(layers) < LEAST_LAYERS):
        growth = Growth(scopes, most_bits, clock)
        missing = [a for a in scopes.sequence if held[a] == 0]
        if missing:
            found = [a for a in missing if growth.add(scopes.masks[a])]
            if layers or len(found) < len(missing):  # Otherwise the first layer holds all.
                found += _padding(scopes, growth, found)
        else:
            rarest = sorted(scopes.sequence, key=lambda a: (held[a], -scopes.scopes[a][0]))
            found = [a for a in rarest if growth.add(scopes.masks[a])]
        variables = 0
        for a in found:
            held[a] += 1
            variables |= scopes.masks[a]
        layers.append(Layer(found, growth.separators, variables))
    return layers


def _padding(scopes: OrderedScopes, growth: Growth, found: list[int]) -> list[int]:
    """Other factors that a layer has room for, those near to what it holds first."""
    far = scopes.distances({v for a in found for v in scopes.scopes[a]})
    inside = set(found)
    others = [a for a in scopes.sequence if a not in inside]
    others.sort(key=lambda a: max(far[v] for v in scopes.scopes[a]))
    return [a for a in others if growth.add(scopes.masks[a])]


def members(variables: int) -> list[int]:
    """The elements of a set, ascending."""
    found = []
    while variables:
        lowest = variables & -variables
        found.append(lowest.bit_length() - 1)
        variables ^= lowest
    return found
