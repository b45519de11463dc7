"""Hard evidence: take the slice of every table at the observed states, all factors at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.pointers import ptr_of
from equifactor.graph.structure import Structure

if TYPE_CHECKING:
    from equifactor.typing import FloatArray, IntArray


def slice_tables(structure: Structure, log_phi: FloatArray, observed: IntArray) -> tuple[Structure, FloatArray]:
    """Structure and tables in which observed variables have left every scope.

    Args:
        structure: scopes before slicing.
        log_phi: [T] tables before slicing.
        observed: [V] observed state, -1 where free.

    Cost O(T' k) for T' entries left and the largest arity k; no loop over factors.
    """
    s = structure
    if s.kinds is not None:
        from equifactor.factors.mixed_rows import slice_rows

        rows = slice_rows(s.rows(log_phi), observed)
        names = {"variable_names": s.variable_names, "state_names": s.state_names}
        return Structure.of_rows(s.card, rows, **names), rows.log_values  # type: ignore[arg-type]
    state_of_edge = observed[s.scope_vars]
    kept = state_of_edge < 0
    # Where each factor's slice begins: its first entry plus the observed states times their strides.
    running = np.concatenate(([0], np.cumsum(np.where(kept, 0, state_of_edge * s.stride))))
    start = s.table_ptr[:-1] + running[s.scope_ptr[1:]] - running[s.scope_ptr[:-1]]

    arity = np.bincount(s.factor_of_edge[kept], minlength=s.num_factors)
    scope_ptr = ptr_of(arity)
    scope_vars = s.scope_vars[kept]
    sliced = Structure.build(s.card, scope_ptr, scope_vars, variable_names=s.variable_names, state_names=s.state_names)

    # Digits of each kept entry in the new table, last slot first, times the strides of the old table.
    factor = np.repeat(np.arange(s.num_factors), np.diff(sliced.table_ptr))
    rest = np.arange(sliced.num_entries) - sliced.table_ptr[factor]
    source = start[factor]
    old_stride = s.stride[kept]
    entries = np.arange(sliced.num_entries)
    for back in range(1, int(arity.max(initial=0)) + 1):
        entries = entries[arity[factor[entries]] >= back]
        edge = scope_ptr[factor[entries] + 1] - back
        rest[entries], digit = np.divmod(rest[entries], s.card[scope_vars[edge]])
        source[entries] += digit * old_stride[edge]
    return sliced, log_phi[source]
