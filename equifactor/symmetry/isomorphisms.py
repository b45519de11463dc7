"""Isomorphisms between two factor graphs that are the same model up to names and numbers, appendix A of [Sun21]."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, OptionError, SolveError
from equifactor.graph.factor_graph import FactorGraph, as_graphs
from equifactor.kernels.pointers import place_in_row
from equifactor.symmetry.canonical_forms import canonical_relabelling
from equifactor.symmetry.colour_refinement import bits, refine
from equifactor.symmetry.comparable_graph import comparable, first_states, with_swaps
from equifactor.symmetry.compared_factors import with_small_tables
from equifactor.symmetry.relabelled_graph import entry_places, relabel
from equifactor.symmetry.relabelling import Relabelling

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph.structure import Structure
    from equifactor.symmetry.colour_refinement import HashArray
    from equifactor.symmetry.comparable_graph import ComparableGraph
    from equifactor.symmetry.parity_systems import ParitySystem


@checks_types("tolerance")
def isomorphism(g: FactorGraph, h: FactorGraph, tolerance: float = 0.0) -> Relabelling | None:
    """Return a relabelling r with `relabel(g, r)` equal to h except for names, or None if there is no such relabelling.

    Args:
        g: the graph that is relabelled.
        h: the graph that g is compared with.
        tolerance: the largest difference of natural logs of entries, which is a relative error of the entries. 0 asks
            for equal floats. A true zero equals only a true zero.

    Tables are compared without rescaling: a factor scaled by a constant is a different factor, because ln Z changes.
    Only the values of structured factors count, as for `canonical_form`. Evidence counts: an observed variable
    corresponds to a variable that is observed in the corresponding state.

    The relabelling is applied and checked before it is returned. With a tolerance, values are first sorted and grouped:
    a gap above the tolerance starts a new group. The result None is therefore always right. A group may be wider than
    the tolerance. If the relabelling that fits the groups does not fit the values, nothing is proved and `SolveError`
    is raised. Noise and tolerance should be far below the differences between distinct values.

    The cost is O(T log T) if counts differ, otherwise the cost of `canonical_form` for both graphs.
    """
    g, h = as_graphs((g, h))
    if not (isinstance(tolerance, Real) and 0 <= tolerance < np.inf):
        raise OptionError(f"tolerance must be a number of at least 0, found {tolerance!r}.")
    tolerance = float(tolerance)
    if (g.num_vars, g.num_factors) != (h.num_vars, h.num_factors):
        return None
    plain = [with_small_tables(x) for x in (g, h)]
    exact = _with_equal_values(*plain, tolerance) if tolerance else plain
    same_g, same_h = (comparable(p, e, tolerance) for p, e in zip(plain, exact, strict=True))
    r = _isomorphism_of_tables(same_g.tables, same_h.tables, tolerance)
    if r is None or (same_g.tables is g and same_h.tables is h):
        return r
    own = _own_part(r, same_g, g.structure, h.structure)
    return _turned_right(own, same_g.parities, same_h.parities)


def _own_part(r: Relabelling, same: ComparableGraph, s: Structure, t: Structure) -> Relabelling:
    """Return the part of a relabelling of comparable tables that concerns the graphs, from structure s to t."""
    variables, factors = r.variables[: s.num_vars], r.factors[: s.num_factors]
    by_new = np.lexsort((variables[s.scope_vars], factors[s.factor_of_edge]))
    slots = np.empty(s.num_edges, np.int64)
    slots[by_new] = place_in_row(t.scope_ptr)[np.lexsort((t.scope_vars, t.factor_of_edge))]
    states = same.own_states(r.states, s.state_ptr)
    return Relabelling(variables, factors, slots, states, s.scope_ptr, s.state_ptr)


def _turned_right(r: Relabelling, g: ParitySystem | None, h: ParitySystem | None) -> Relabelling | None:
    """Return the relabelling with states of free variables swapped so that parities turn as in h, or None."""
    if g is None or h is None:
        return r
    place = np.searchsorted(h.factors, r.factors[g.factors])
    turned = g.turns_after(first_states(r) == 1)
    swapped, all_met = g.swaps(turned ^ h.turned[place], g.factors)
    return with_swaps(r, swapped) if all_met else None


def _isomorphism_of_tables(g: FactorGraph, h: FactorGraph, tolerance: float) -> Relabelling | None:
    """Return the isomorphism of graphs that have dense tables only."""
    if not _same_counts(g, h):
        return None
    values_g, values_h = _values(g.log_phi, h.log_phi, tolerance)
    if not np.array_equal(np.sort(values_g), np.sort(values_h)):
        return None
    colours_g, colours_h = refine(g, values_g), refine(h, values_h)
    if not colours_g.agree(colours_h):
        return None
    to_canonical = canonical_relabelling(g, values_g, colours_g)
    from_canonical = canonical_relabelling(h, values_h, colours_h).inverse()
    try:
        r = to_canonical.compose(from_canonical)
    except ModelError:
        return None
    moved = relabel(g, r)
    if not _same_structure(moved.structure, h.structure) or moved.evidence != h.evidence:
        return None
    apart = _largest_difference(moved.log_phi, h.log_phi)
    if apart <= tolerance:
        return r
    if tolerance == 0 or not np.array_equal(_moved_values(g, h, r, values_g), values_h):
        return None
    raise SolveError(
        f"The tolerance {tolerance:g} is too large to decide. It joins chains of values, and natural logs of entries "
        f"under the best relabelling found differ by {apart:g}. Choose a smaller tolerance, or one above {apart:g}."
    )


def _same_counts(g: FactorGraph, h: FactorGraph) -> bool:
    """Return whether both graphs have the same numbers and sizes of variables, factors, tables and observations."""
    s, t = g.structure, h.structure
    return (
        (s.num_vars, s.num_factors, s.num_edges, s.num_entries)
        == (t.num_vars, t.num_factors, t.num_edges, t.num_entries)
        and len(g.evidence) == len(h.evidence)
        and all(
            np.array_equal(np.sort(a), np.sort(b))
            for a, b in ((s.card, t.card), (s.arity, t.arity), (np.diff(s.table_ptr), np.diff(t.table_ptr)))
        )
    )


def _values(a: FloatArray, b: FloatArray, tolerance: float) -> tuple[HashArray, HashArray]:
    """Return numbers that represent the entries of both graphs: their bits, or the numbers of their groups."""
    if tolerance == 0:
        return bits(a), bits(b)
    both = np.concatenate((a, b))
    finite = both > -np.inf
    sorted_values = np.unique(both[finite])
    group = np.concatenate(([1], 1 + np.cumsum(np.diff(sorted_values) > tolerance))).astype(np.uint64)
    numbers = np.zeros(len(both), np.uint64)  # Group 0 holds the true zeros.
    numbers[finite] = group[np.searchsorted(sorted_values, both[finite])]
    return numbers[: len(a)], numbers[len(a) :]


def _with_equal_values(g: FactorGraph, h: FactorGraph, tolerance: float) -> list[FactorGraph]:
    """Return both graphs with each value replaced by the smallest value of its group."""
    numbers = np.concatenate(_values(g.log_phi, h.log_phi, tolerance))
    both = np.concatenate((g.log_phi, h.log_phi))
    least = np.full(int(numbers.max(initial=0)) + 1, np.inf)
    np.minimum.at(least, numbers, both)
    split = len(g.log_phi)
    parts = ((g, least[numbers[:split]]), (h, least[numbers[split:]]))
    return [FactorGraph.trusted(x.structure, values, x.observed) for x, values in parts]


def _moved_values(g: FactorGraph, h: FactorGraph, r: Relabelling, values: HashArray) -> HashArray:
    moved = np.empty_like(values)
    moved[entry_places(g.structure, h.structure, r)] = values
    return moved


def _same_structure(s: Structure, t: Structure) -> bool:
    return all(np.array_equal(getattr(s, field), getattr(t, field)) for field in ("card", "scope_ptr", "scope_vars"))


def _largest_difference(a: FloatArray, b: FloatArray) -> float:
    zero = np.isneginf(a)
    if not np.array_equal(zero, np.isneginf(b)):
        return np.inf
    return float(np.abs(a[~zero] - b[~zero]).max(initial=0.0))
