"""Colours of the variables, states and factors of a graph that no relabelling can change.

The method is colour refinement (one-dimensional Weisfeiler-Leman) on a graph with a node per variable, state, factor
and table entry. A colour is a 64-bit hash of a node's own properties and of the multiset of its neighbours' colours.
The multiset is a sum of mixed hashes, which does not depend on any order. A hash collision (one pair in 2^64) only
makes the colouring coarser, and every answer built on the colours is checked on the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.kernels.pointers import place_in_row, row_of
from equifactor.symmetry.relabelled_graph import entry_slots

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph

    HashArray = NDArray[np.uint64]

_FREE, _OBSERVED, _FACTOR = (np.array([n], np.uint64) for n in (11, 12, 13))  # Hashes of the kinds of nodes.
_ODD = np.array([0x9E3779B97F4A7C15], np.uint64)  # The increment of splitmix64 [Steele14].


@dataclass(frozen=True)
class Colours:
    """Hashes that isomorphic graphs share, node by node."""

    variables: HashArray  # [V]
    states: HashArray  # [X]
    factors: HashArray  # [F]
    entries: HashArray  # [T]

    def agree(self, other: Colours) -> bool:
        """Return whether the same colours occur equally often: necessary for isomorphism, and often sufficient."""
        pairs = ((self.variables, other.variables), (self.states, other.states), (self.factors, other.factors))
        return all(np.array_equal(np.sort(a), np.sort(b)) for a, b in pairs)


def mix(values: HashArray) -> HashArray:
    """Scatter the bits of each number over all 64 (the finaliser of splitmix64 [Steele14]); a bijection."""
    z = values + _ODD
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def bits(values: FloatArray) -> HashArray:
    """Return the bits of each float as a number, with -0.0 taken as 0.0."""
    return (values + 0.0).view(np.uint64)


def refine(graph: FactorGraph, values: HashArray) -> Colours:
    """Return the coarsest colouring in which nodes of one colour have equally coloured neighbours.

    Args:
        graph: the graph, of which scopes, cardinalities and evidence are used, but not names.
        values: [T] a number for each table entry; equal numbers count as equal entries.

    Evidence counts: observed and free variables have different colours, and so have observed and other states. The cost
    is O(T k) per round. Rounds end when the number of colours stops growing: after at most V + X + F rounds, usually
    fewer than 10.
    """
    s = graph.structure
    observed = np.full(s.num_vars, -1) if graph.observed is None else graph.observed
    variables = mix(s.card.astype(np.uint64)) + np.where(observed < 0, _FREE, _OBSERVED)
    owner = row_of(s.state_ptr)
    is_state = observed[owner] == place_in_row(s.state_ptr)
    states = np.where(is_state, _OBSERVED, _FREE)
    factors = mix(s.arity.astype(np.uint64)) + _FACTOR
    places = [
        (None if len(entries) == s.num_entries else entries, s.state_ptr[s.scope_vars[edges]] + digit)
        for entries, edges, digit in entry_slots(s)
    ]
    size = np.diff(s.table_ptr)
    values = mix(values)
    known = 0
    while True:
        looks = values + _entry_sums(mix(states), places, s.num_entries)
        entries = mix(looks)
        scope = _sum_at(mix(variables)[s.scope_vars], s.factor_of_edge, s.num_factors)
        factors = mix(factors + scope + _sum_rows(entries, s.table_ptr))
        entries = mix(entries + np.repeat(factors, size))
        classes = _count(variables) + _count(states) + _count(factors)
        if classes == known:
            return Colours(variables, states, factors, entries)
        known = classes
        neighbours = np.zeros(len(states), np.uint64)
        for present, state in places:
            np.add.at(neighbours, state, entries if present is None else entries[present])
        states = mix(states + mix(variables)[owner] + mix(neighbours))
        around = _sum_at(mix(factors)[s.factor_of_edge], s.scope_vars, s.num_vars)
        variables = mix(variables + around + _sum_rows(mix(states), s.state_ptr))


def _entry_sums(colours: HashArray, places: list[tuple[IntArray | None, IntArray]], num_entries: int) -> HashArray:
    """Return the sum [T] of the colours of the states of each entry, which does not depend on scope order."""
    total = np.zeros(num_entries, np.uint64)
    for present, state in places:
        if present is None:
            total += colours[state]
        else:
            total[present] += colours[state]
    return total


def _sum_at(values: HashArray, place: IntArray, size: int) -> HashArray:
    total = np.zeros(size, np.uint64)
    np.add.at(total, place, values)
    return total


def _sum_rows(values: HashArray, ptr: IntArray) -> HashArray:
    """Return the sum over each row of a ragged array; no row is empty."""
    return np.add.reduceat(values, ptr[:-1]) if len(ptr) > 1 else np.zeros(0, np.uint64)


def _count(colours: HashArray) -> int:
    return len(np.unique(colours))
