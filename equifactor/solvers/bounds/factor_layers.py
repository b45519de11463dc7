"""Layers: sets of factors, each of bounded width along one common order, that together hold every factor.

The clusters of one layer form an exact elimination, and a variable has one cluster in every layer that holds it. Layers
that overlap as much as their width allows give tighter bounds than buckets that are split one by one. On a 20x20 grid,
at the same cluster size, the gap is a fifth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.budget import CALL_SECONDS, Seconds
from equifactor.kernels.pointers import by_number, ptr_of
from equifactor.solvers.elimination.orders import BITS_ROUNDING

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.graph.structure import Structure

# log2 of the growth of clusters from one size to the next, or room for one variable. Halved or doubled: gap within
# 15 %.
BITS_MORE = 2.0
LEAST_LAYERS = 4  # Layers at least if one does not hold all factors; see `cover` for a measurement.
_CHECK_EVERY = int(CALL_SECONDS / Seconds.LAYER_BUILD)  # Additions between two checks of the clock.


class OutOfTime(Exception):  # noqa: N818 - nothing went wrong
    """The clock stopped while layers or blocks were built, which are useless if incomplete."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Some factors and the clusters that their elimination makes; variables are places in the order."""

    factors: BoolArray  # [F] the factors that it holds
    variables: BoolArray  # [V] the variables that occur in them
    separators: IntArray  # [V, W] the other variables of each cluster, ascending
    width: IntArray  # [V] the size of each separator


class OrderedScopes:
    """The scopes of a model along an order.

    Args:
        structure: the model.
        order: [V] the variables in the order of elimination.
    """

    def __init__(self, structure: Structure, order: IntArray) -> None:
        from equifactor.kernels.jit import plain
        from equifactor.solvers.bounds.layer_kernels import PlacedScopes

        self.order = order
        self.place = np.empty(len(order), np.int64)
        self.place[order] = np.arange(len(order))
        self.card = structure.card[order].astype(np.int64)
        self.bits = np.log2(self.card)
        place = self.place[structure.scope_vars]
        factor = structure.factor_of_edge
        self.edge = np.lexsort((place, factor))  # [E] the edges of the model, sorted by place within each factor
        self.ptr = structure.scope_ptr
        self.places = place[self.edge]  # [E] the scopes, ascending
        self.largest_arity = int(structure.arity.max(initial=0))
        around = by_number(place)
        self.arrays = plain(
            PlacedScopes(
                self.bits, self.ptr, self.places, ptr_of(np.bincount(place, minlength=len(order))), factor[around]
            )
        )
        self.factor_bits = np.bincount(factor, self.bits[place], minlength=structure.num_factors)
        held = np.flatnonzero(structure.arity)
        columns = [
            np.where(structure.arity[held] > j, self.places[np.minimum(self.ptr[held] + j, len(place) - 1)], -1)
            for j in range(self.largest_arity)
        ]
        # The factors with variables, sorted by their scopes along the order.
        self.sequence = held[np.lexsort(columns[::-1])] if columns else held
        self.first = np.full(structure.num_factors, -1)  # [F] the variable of each factor that is eliminated first
        self.first[held] = self.places[self.ptr[held]]

    @property
    def num_vars(self) -> int:
        """V, the number of variables."""
        return len(self.card)

    def spread(self, factors: BoolArray) -> BoolArray:
        """Return [V] whether each variable is in one of some factors [F]."""
        found = np.zeros(self.num_vars, bool)
        found[self.places[np.repeat(factors, np.diff(self.ptr))]] = True
        return found


class Growth:
    """The clusters of a growing set of factors, none above a size. `OutOfTime` is raised when the clock stops."""

    def __init__(self, scopes: OrderedScopes, most_bits: float, clock: Clock) -> None:
        from equifactor.kernels.jit import plain
        from equifactor.solvers.bounds.layer_kernels import GrowingClusters

        self._scopes, self._most, self._clock = scopes, most_bits + BITS_ROUNDING, clock
        count = scopes.num_vars
        most = min(most_bits / float(scopes.bits.min(initial=1.0)), count) if count else 0
        wide = max(math.floor(most), 1)
        self.clusters = GrowingClusters(
            separator=np.zeros((count, wide), np.int64), width=np.zeros(count, np.int64),
            journal=np.empty((count, wide + 2), np.int64), stamp=np.zeros(count + 2, np.int64),
            rest=np.empty(wide + scopes.largest_arity, np.int64),
            wider=np.empty(2 * wide + scopes.largest_arity, np.int64),
        )  # fmt: skip
        self._arrays = plain(self.clusters)
        self.taken = np.zeros(len(scopes.ptr) - 1, bool)

    def take(self, factors: IntArray) -> None:
        """Add factors in the given order, and skip those that would make a cluster too large."""
        from equifactor.solvers.bounds.layer_kernels import take_factors

        for start in range(0, len(factors), _CHECK_EVERY):
            self._check()
            take_factors(
                factors[start : start + _CHECK_EVERY], self._most, self._scopes.arrays, self._arrays, self.taken
            )  # fmt: skip

    def take_variables(self, allowed: BoolArray) -> BoolArray:
        """Return [V] the allowed variables [V] that can join along the order, with all factors restricted to them."""
        from equifactor.solvers.bounds.layer_kernels import take_variables

        inside = np.zeros(len(allowed), bool)
        for start in range(0, len(allowed), _CHECK_EVERY):
            self._check()
            stop = min(start + _CHECK_EVERY, len(allowed))
            take_variables(start, stop, allowed, self._most, self._scopes.arrays, self._arrays, inside)
        return inside

    def _check(self) -> None:
        if self._clock.stopped:
            raise OutOfTime


def cover(scopes: OrderedScopes, most_bits: float, clock: Clock) -> list[Layer]:
    """Return layers with clusters of at most 2^most_bits entries, or as many as the largest factor.

    Each layer begins with the factors that no layer holds so far, along the order, and takes others while there is
    room, nearby factors first. If one layer does not hold all factors, there are at least `LEAST_LAYERS`. The others
    begin with the factors that the fewest layers hold, from the end of the order. On a 20x20 torus two more layers
    bring the bound from 160 above the best lower bound to 10, for 1.6 times the work.
    """
    from equifactor.solvers.bounds.layer_kernels import steps_from

    most_bits = max(most_bits, float(scopes.factor_bits.max(initial=0.0)))
    held = np.zeros(len(scopes.ptr) - 1, np.int64)
    sequence = scopes.sequence
    rank = np.empty(len(held), np.int64)
    rank[sequence] = np.arange(len(sequence))
    layers: list[Layer] = []
    while not layers or not held[sequence].all() or 1 < len(layers) < LEAST_LAYERS:
        growth = Growth(scopes, most_bits, clock)
        missing = sequence[held[sequence] == 0]
        if len(missing):
            growth.take(missing)
            if layers or not growth.taken[missing].all():  # Otherwise the first layer holds all factors.
                far = steps_from(scopes.spread(growth.taken), scopes.arrays)
                furthest = np.zeros(len(held), np.int64)
                np.maximum.at(furthest, np.repeat(np.arange(len(held)), np.diff(scopes.ptr)), far[scopes.places])
                others = sequence[~growth.taken[sequence]]
                growth.take(others[np.argsort(furthest[others], kind="stable")])
        else:
            growth.take(sequence[np.lexsort((rank[sequence], -scopes.first[sequence], held[sequence]))])
        held += growth.taken
        clusters = growth.clusters
        layers.append(Layer(growth.taken, scopes.spread(growth.taken), clusters.separator, clusters.width))
    return layers
