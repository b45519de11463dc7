"""Parities among the factors of a graph, and their properties that no relabelling of states can change.

A parity depends on whether the number of ones in its scope is even or odd. Swapping the states of one variable *turns*
every parity over it. If only parities distinguish the two states of a variable, the variable is *free*: its states may
be swapped. The turn of a single parity over free variables therefore has no meaning. Comparing all swaps would take
exponential time on the checks of a code. The total turn of a set of parities does have a meaning if every free variable
occurs in the set an even number of times. In linear algebra over the numbers 0 and 1, these are the sets of rows whose
sum is zero. The lightest of these sets span all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.components import connected_components
from equifactor.graph.factor_rows import by_shape, row_sums
from equifactor.graph.kinds import kinds_with
from equifactor.graph.structure import Structure
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import picked, row_of
from equifactor.symmetry.binary_elimination import bits_of, dependencies, light_sums, masks_of, solve_rows

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph

_MAX_DEPENDENT = 10  # The largest number of dependent parities of a component, which have 2^10 sets. Chosen by hand.
_MAX_PARITIES = 20_000  # The largest number n of parities of a component: elimination is O(n^3 / 64). Chosen by hand.


@dataclass(frozen=True, eq=False)
class ParitySystem:
    """The P parities of a graph that are compared as parities, and the free variables of the graph."""

    factors: IntArray  # [P] the numbers of their factors, ascending.
    scope_ptr: IntArray  # [P+1]
    scope_vars: IntArray
    turned: BoolArray  # [P] whether an even number of ones has the larger value.
    is_free: BoolArray  # [V]
    sets: list[list[int]]  # Sets of parities, by position, whose total turn no swap of free variables changes.

    def turns_after(self, swapped: BoolArray) -> BoolArray:
        """Return [P] the turns of the parities after the states of some variables [V] were swapped."""
        return np.asarray(self.turned ^ (row_sums(swapped[self.scope_vars].astype(np.int64), self.scope_ptr) % 2 == 1))

    def swaps(self, wanted: BoolArray, rank: IntArray) -> tuple[BoolArray, bool]:
        """Return [V] the free variables to swap so that parities turn as wanted [P], and whether all parities do.

        If not all parities can, parities of lower rank [P] have priority.
        """
        order = np.argsort(rank)
        place = np.argsort(order)
        kept = self.is_free[self.scope_vars]
        number = np.cumsum(self.is_free) - 1
        row, column = place[row_of(self.scope_ptr)[kept]], number[self.scope_vars[kept]]
        masks, bit = masks_of(row, column, len(self.factors), int(self.is_free.sum()))
        columns, all_met = solve_rows(masks, wanted[order])
        swapped = np.zeros(len(self.is_free), bool)
        has_bit = np.array([columns >> b & 1 for b in bit.tolist()], bool)
        swapped[np.flatnonzero(self.is_free)] = has_bit
        return swapped, all_met


def parity_system(graph: FactorGraph) -> ParitySystem | None:
    """Return the parities of a graph, stated as parities or as tables; None if no parity has three or more variables.

    Free variables connect parities into components. A component is left out if too many of its parities depend on each
    other, or if all its parities have two variables. The parities of such a component are compared by their tables.
    """
    s = graph.structure
    even, odd = _values(graph)
    factors = np.flatnonzero(even != odd)
    if not len(factors) or s.arity[factors].max() < 3:
        return None
    scope_ptr, edges = picked(s.scope_ptr, factors)
    scope_vars, parity = s.scope_vars[edges], row_of(scope_ptr)
    is_free = np.zeros(s.num_vars, bool)
    is_free[scope_vars] = True
    is_free &= ~_told_apart(graph, factors)
    scopes = Structure(s.card, scope_ptr, scope_vars, scope_ptr)
    label = connected_components(scopes, np.where(is_free, -1, 0))
    component = np.full(len(factors), -1)
    component[parity[is_free[scope_vars]]] = label[scope_vars[is_free[scope_vars]]]

    count = np.bincount(component[component >= 0], minlength=int(label.max(initial=-1)) + 1)
    columns = np.bincount(label[is_free], minlength=len(count))
    wanted = (count - columns <= _MAX_DEPENDENT) & (count <= _MAX_PARITIES)
    longest = np.zeros(len(count), np.int64)
    np.maximum.at(longest, component[component >= 0], s.arity[factors[component >= 0]])
    wanted &= longest >= 3
    sets = _dependent_sets(parity, scope_vars, is_free, component, wanted)
    kept = np.where(component >= 0, np.append(wanted, False)[component], s.arity[factors] >= 3)
    if not kept.any():
        return None
    sets += [[p] for p in np.flatnonzero(kept & (component < 0)).tolist()]
    place = np.cumsum(kept) - 1
    new_ptr, edges = picked(scope_ptr, np.flatnonzero(kept))
    is_free &= np.append(wanted, False)[label]
    return ParitySystem(
        factors[kept], new_ptr, scope_vars[edges], (even > odd)[factors[kept]], is_free,
        [[int(place[p]) for p in members] for members in sets],
    )  # fmt: skip


def _dependent_sets(
    parity: IntArray, variable: IntArray, is_free: BoolArray, component: IntArray, wanted: BoolArray
) -> list[list[int]]:
    """Return the sets of parities of the wanted components; a component with too many sets is no longer wanted."""
    use = is_free[variable] & np.append(wanted, False)[component[parity]]
    rows, row = np.unique(parity[use], return_inverse=True)
    columns, column = np.unique(variable[use], return_inverse=True)
    masks, _ = masks_of(row, column, len(rows), len(columns))
    by_component: dict[int, list[int]] = {}
    for found in dependencies(masks):
        own = int(component[rows[found.bit_length() - 1]])
        by_component.setdefault(own, []).append(found)
    sets = []
    for own, basis in by_component.items():
        light = light_sums(basis, _MAX_DEPENDENT)
        if light is None:
            wanted[own] = False
            continue
        sets += [rows[bits_of(total)].tolist() for total in light]
    return sets


def _values(graph: FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return [F] the log values of an even and of an odd number of ones; both 0 for a factor that is not a parity."""
    s = graph.structure
    even, odd = np.zeros(s.num_factors), np.zeros(s.num_factors)
    kind = np.zeros(s.num_factors, np.int64) if s.kinds is None else s.kinds.kind
    stated = np.flatnonzero(kinds_with("is_parity", kind))
    even[stated], odd[stated] = graph.log_phi[s.table_ptr[stated]], graph.log_phi[s.table_ptr[stated] + 1]
    binary = row_sums((s.card[s.scope_vars] != 2).astype(np.int64), s.scope_ptr) == 0
    candidates = np.flatnonzero((kind == TABLE) & binary & (s.arity >= 2))
    for k in np.unique(s.arity[candidates]).tolist():
        members = candidates[s.arity[candidates] == k]
        is_odd = np.bitwise_count(np.arange(2**k)) % 2
        # Few tables are parities, and the first entries rule out most of the others.
        for entries in (np.arange(4), np.arange(2**k)):
            values = np.stack([graph.log_phi[s.table_ptr[members] + n] for n in (0, 1)], axis=1)
            found = graph.log_phi[s.table_ptr[members][:, None] + entries]
            members = members[(values[:, 0] != values[:, 1]) & (found == values[:, is_odd[entries]]).all(axis=1)]
        even[members], odd[members] = (graph.log_phi[s.table_ptr[members] + n] for n in (0, 1))
    return even, odd


def _told_apart(graph: FactorGraph, parities: IntArray) -> BoolArray:
    """Return [V] whether a factor other than these parities depends on the variable."""
    s = graph.structure
    rows = s.rows(graph.log_phi)
    other = np.ones(s.num_factors, bool)
    other[parities] = False
    tells = np.zeros(s.num_vars, bool)
    tells[s.scope_vars[(other & (rows.kind != TABLE))[s.factor_of_edge]]] = True
    tables = rows.take(np.flatnonzero(other & (rows.kind == TABLE)))
    for group in by_shape(tables):
        some = tables.take(group)
        shape = some.card[: some.arity[0]].tolist()
        scopes = some.scope_vars.reshape(len(group), -1)
        for j, d in enumerate(shape):
            if d == 2:
                by_state = some.log_values.reshape(len(group), -1, 2, int(np.prod(shape[j + 1 :], dtype=np.int64)))
                differs = (by_state[:, :, 0] != by_state[:, :, 1]).reshape(len(group), -1).any(axis=1)
                tells[scopes[differs, j]] = True
    return tells
