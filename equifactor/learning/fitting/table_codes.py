"""The table entry of each row of data, factor by factor, and the counts of all entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.structure import Structure
    from equifactor.learning.fitting.data_rows import DataRows


def table_codes(s: Structure, factors: IntArray, data: DataRows) -> Iterator[tuple[int, IntArray, BoolArray | None]]:
    """Yield for each dense table its number, and the entry [n] of each row that has all values of its scope.

    The third item is a mask [N] of these rows, or None for all rows. The loop over factors runs in Python; its own cost
    is small with tens of thousands of rows.
    """
    for a in factors.tolist():
        scope = s.scope(a)
        gaps = scope[data.has_gaps[scope]]
        seen = ~np.asarray(data.is_missing[:, gaps].any(axis=1)) if len(gaps) else None
        code = np.zeros(data.num_rows if seen is None else np.count_nonzero(seen), np.int64)
        for variable, step in zip(scope.tolist(), s.stride[s.scope_ptr[a] : s.scope_ptr[a + 1]].tolist(), strict=True):
            column = data.states[:, variable]
            code += step * (column if seen is None else column[seen])
        yield a, code, seen


def table_counts(s: Structure, factors: IntArray, data: DataRows) -> FloatArray:
    """Return how often [T] each entry of some tables occurs in rows with all values of its scope; 0 elsewhere."""
    found = np.zeros(s.num_entries)
    unit = bool(np.all(data.weights == 1.0))
    for a, code, seen in table_codes(s, factors, data):
        start, stop = s.table_ptr[a : a + 2]
        weights = None if unit else data.weights if seen is None else data.weights[seen]
        found[start:stop] = np.bincount(code, weights, stop - start)
    return found
