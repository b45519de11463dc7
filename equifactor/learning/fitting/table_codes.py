"""Which table entry each row of data names, factor by factor, and how often each is named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.structure import Structure
    from equifactor.learning.fitting.data_table import DataTable


def table_codes(s: Structure, factors: IntArray, table: DataTable) -> Iterator[tuple[int, IntArray, BoolArray | None]]:
    """For each factor, a table, the entry [n] that each row names which has all values of its scope.

    With it comes which rows [N] these are, None for all. One step of Python for each factor: at tens of thousands of
    rows what it does for them is far above its own cost.
    """
    for a in factors.tolist():
        scope = s.scope(a)
        gaps = scope[table.has_gaps[scope]]
        seen = ~np.asarray(table.is_missing[:, gaps].any(axis=1)) if len(gaps) else None
        code = np.zeros(table.num_rows if seen is None else np.count_nonzero(seen), np.int64)
        for variable, step in zip(scope.tolist(), s.stride[s.scope_ptr[a] : s.scope_ptr[a + 1]].tolist(), strict=True):
            column = table.states[:, variable]
            code += step * (column if seen is None else column[seen])
        yield a, code, seen


def table_counts(s: Structure, factors: IntArray, table: DataTable) -> FloatArray:
    """[T] how often each entry of some tables was seen, in rows where its whole scope was; 0 in all others."""
    found = np.zeros(s.num_entries)
    unit = bool(np.all(table.weights == 1.0))
    for a, code, seen in table_codes(s, factors, table):
        start, stop = s.table_ptr[a : a + 2]
        weights = None if unit else table.weights if seen is None else table.weights[seen]
        found[start:stop] = np.bincount(code, weights, stop - start)
    return found
