"""Hard evidence: take the slice of every table at the observed states, all factors at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from equifactor.graph.structure import Structure
from equifactor.kernels.pointers import picked, ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray

_MOST_ENTRIES = (
    2**20
)  # Largest number of table entries of a structure that remembers sets of observed variables. Chosen by hand.
_MOST_IN_ALL = 2**22  # Largest number of table entries of all sets that a structure remembers. Chosen by hand.
_FEW_FACTORS = 1000  # Factors that are sliced one by one, at most. Chosen by hand.
_MOST_SETS = 64  # Largest number of sets that a structure remembers. Chosen by hand.

_known: WeakKeyDictionary[Structure, dict[bytes, _SlicedTables]] = WeakKeyDictionary()


def slice_tables(structure: Structure, log_phi: FloatArray, observed: IntArray) -> tuple[Structure, FloatArray]:
    """Return structure and tables in which observed variables have left every scope.

    Args:
        structure: scopes before slicing.
        log_phi: [T] tables before slicing.
        observed: [V] observed state, -1 where free.

    Cost O(T' k) for T' entries left and the largest arity k; no loop over factors.
    """
    s = structure
    if s.kinds is not None:
        from equifactor.graph.mixed_rows import slice_rows

        rows = slice_rows(s.rows(log_phi), observed)
        names = {"variable_names": s.variable_names, "state_names": s.state_names}
        return Structure.of_rows(s.card, rows, **names), rows.log_values  # type: ignore[arg-type]
    is_free = observed < 0
    if s.num_entries > _MOST_ENTRIES:
        cut = np.unique(s.factor_of_edge[~is_free[s.scope_vars]])
        if len(cut) <= _FEW_FACTORS and 2 * np.diff(s.table_ptr)[cut].sum() <= s.num_entries:
            return _slice_few(s, log_phi, observed, cut)
    parts = _parts_known(s, is_free) if s.num_entries <= _MOST_ENTRIES else _parts(s, is_free)
    # Where each factor's slice begins: its first entry plus the observed states times their strides.
    state_of_edge = observed[s.scope_vars]
    running = np.concatenate(([0], np.cumsum(np.where(state_of_edge < 0, 0, state_of_edge * s.stride))))
    start = running[s.scope_ptr[1:]] - running[s.scope_ptr[:-1]]
    return parts.structure, log_phi[parts.source + start[parts.factor]]


def _slice_few(s: Structure, log_phi: FloatArray, observed: IntArray, cut: IntArray) -> tuple[Structure, FloatArray]:
    """Return the same where few factors `cut` are sliced: all other tables of a large model are copied at once."""
    scope_ptr, edges = picked(s.scope_ptr, cut)
    small, values = slice_tables(
        Structure.build(s.card, scope_ptr, s.scope_vars[edges]), log_phi[picked(s.table_ptr, cut)[1]], observed
    )
    arity = s.arity.copy()
    arity[cut] = small.arity
    sliced = s.with_scopes(ptr_of(arity), s.scope_vars[observed[s.scope_vars] < 0])
    pieces: list[FloatArray] = []
    at = 0
    for n, factor in enumerate(cut.tolist()):
        pieces += [log_phi[at : s.table_ptr[factor]], values[small.table_ptr[n] : small.table_ptr[n + 1]]]
        at = s.table_ptr[factor + 1]
    return sliced, np.concatenate([*pieces, log_phi[at:]])


class _SlicedTables(NamedTuple):
    """The remaining part of all tables when some variables are observed, in any states."""

    structure: Structure
    source: IntArray  # [T'] old place of each entry that is left, if all observed variables are in state 0
    factor: IntArray  # [T'] the factor of each entry


def _parts_known(s: Structure, is_free: BoolArray) -> _SlicedTables:
    """Return the parts, from memory if the same variables of this structure were observed before.

    Graphs that are conditioned on other states of the same variables then share their structure, and so a plan.
    """
    known = _known.setdefault(s, {})
    key = is_free.tobytes()
    parts = known.get(key)
    if parts is None:
        if len(known) >= min(_MOST_SETS, _MOST_IN_ALL // max(1, s.num_entries)):
            known.clear()
        parts = known[key] = _parts(s, is_free)
    return parts


def _parts(s: Structure, is_free: BoolArray) -> _SlicedTables:
    kept = is_free[s.scope_vars]
    arity = np.bincount(s.factor_of_edge[kept], minlength=s.num_factors)
    scope_ptr = ptr_of(arity)
    scope_vars = s.scope_vars[kept]
    sliced = s.with_scopes(scope_ptr, scope_vars)
    factor = np.repeat(np.arange(s.num_factors), np.diff(sliced.table_ptr))
    rest = np.arange(sliced.num_entries) - sliced.table_ptr[factor]
    source = s.table_ptr[factor] + rest
    # Digits of each entry in a table that is cut, last slot first, times the strides of the old table.
    entries = np.flatnonzero((arity < s.arity)[factor])
    source[entries] -= rest[entries]
    old_stride = s.stride[kept]
    for back in range(1, int(arity.max(initial=0)) + 1):
        entries = entries[arity[factor[entries]] >= back]
        edge = scope_ptr[factor[entries] + 1] - back
        rest[entries], digit = np.divmod(rest[entries], s.card[scope_vars[edge]])
        source[entries] += digit * old_stride[edge]
    return _SlicedTables(sliced, source, factor)
