"""Whether two factor graphs are the same model up to names and numbers, appendix A of [Sun21]."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

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


def isomorphism(g: FactorGraph, h: FactorGraph, tolerance: float = 0.0) -> Relabelling | None:
    """A relabelling r with `relabel(g, r)` equal to h but for names, or None when there is none.

    Args:
        g: the graph that is relabelled.
        h: the graph it is compared with.
        tolerance: how far natural logs of entries may be apart, so a relative error of the entries themselves;
            0 asks for equal floats. True zeros equal true zeros only.

    Tables are taken as they stand: a factor scaled by a constant is another factor, because ln Z changes. Factors of
    other kinds count as what they say, however they are stated, as for `canonical_form`. Evidence counts: an observed
    variable corresponds to one that is observed in the corresponding state.

    The relabelling is applied and compared before it is returned. With a tolerance, values are grouped first (sorted,
    and cut wherever neighbours are further apart), so that None is always right. Where the groups are wider than the
    tolerance and the relabelling that fits the groups does not fit the values, nothing is proved and `SolveError`
    says so: noise and tolerance should be far below the differences between values that matter.

    Cost: O(T log T) for a "no" by counting, then as `canonical_form` for both graphs.
    """
    g, h = as_graphs((g, h))
    if not (isinstance(tolerance, Real) and 0 <= tolerance < np.inf):
        raise OptionError(f"the tolerance must be a number >= 0, found {tolerance!r}")
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
    """What a relabelling of tables that say the same does to the graphs themselves, from structure s to t."""
    variables, factors = r.variables[: s.num_vars], r.factors[: s.num_factors]
    by_new = np.lexsort((variables[s.scope_vars], factors[s.factor_of_edge]))
    slots = np.empty(s.num_edges, np.int64)
    slots[by_new] = place_in_row(t.scope_ptr)[np.lexsort((t.scope_vars, t.factor_of_edge))]
    states = same.own_states(r.states, s.state_ptr)
    return Relabelling(variables, factors, slots, states, s.scope_ptr, s.state_ptr)


def _turned_right(r: Relabelling, g: ParitySystem | None, h: ParitySystem | None) -> Relabelling | None:
    """The relabelling with the states of free variables swapped so that every parity is turned as it is in h."""
    if g is None or h is None:
        return r
    place = np.searchsorted(h.factors, r.factors[g.factors])
    turned = g.turns_after(first_states(r) == 1)
    swapped, all_met = g.swaps(turned ^ h.turned[place], g.factors)
    return with_swaps(r, swapped) if all_met else None


def _isomorphism_of_tables(g: FactorGraph, h: FactorGraph, tolerance: float) -> Relabelling | None:
    """What `isomorphism` says of graphs that have tables only."""
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
        f"the tolerance {tolerance:g} is too coarse to decide: it joins chains of values, and the entries of the best "
        f"relabelling found are {apart:g} apart in natural log; choose a smaller one, or one above {apart:g}"
    )


def _same_counts(g: FactorGraph, h: FactorGraph) -> bool:
    """Whether both have equal numbers of everything that can be counted without looking at values."""
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
    """Numbers that stand for the entries of both graphs: their bits, or the numbers of their groups."""
    if tolerance == 0:
        return bits(a), bits(b)
    both = np.concatenate((a, b))
    finite = both > -np.inf
    sorted_values = np.unique(both[finite])
    group = np.concatenate(([1], 1 + np.cumsum(np.diff(sorted_values) > tolerance))).astype(np.uint64)
    numbers = np.zeros(len(both), np.uint64)  # group 0: the true zeros
    numbers[finite] = group[np.searchsorted(sorted_values, both[finite])]
    return numbers[: len(a)], numbers[len(a) :]


def _with_equal_values(g: FactorGraph, h: FactorGraph, tolerance: float) -> list[FactorGraph]:
    """Both graphs with the least value of its group in place of every value."""
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
