"""Factors that have become small: over one variable or none a table says the same, and every solver knows tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.factor_rows import merged
from equifactor.graph.structured_factor import TABLE
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray
    from equifactor.graph.factor_rows import FactorRows
    from equifactor.graph.structured_factor import StructuredFactor


def without_small_scopes(cls: type[StructuredFactor], rows: FactorRows) -> FactorRows:
    """The rows, of this class or tables already, with tables where a scope has fewer than two variables."""
    is_small = (rows.arity < 2) & (rows.kind != TABLE)
    if not is_small.any():
        return rows
    parts = [(np.flatnonzero(~is_small), rows.take(np.flatnonzero(~is_small)))]
    states = np.zeros(rows.num_factors, np.int64)  # of its variable, where a factor has one
    states[rows.row_of_edge] = rows.card
    for d in np.unique(states[is_small]).tolist():
        place = np.flatnonzero(is_small & (states == d))
        group = rows.take(place)
        every = np.arange(d)[:, None] * np.ones(len(place), np.int64) if d else np.zeros((1, 0), np.int64)
        values = cls.log_scores(group, every).T  # [N, d], or [N, 1] without a variable
        parts.append((place, _tables(group, values)))
    return merged(parts)


def as_constants(rows: FactorRows, which: BoolArray, log_values: FloatArray) -> FactorRows:
    """The rows with constants of these log values in place of the factors `which` [N], which have no variables."""
    if not which.any():
        return rows
    place, others = np.flatnonzero(which), np.flatnonzero(~which)
    constants = _tables(rows.take(place), log_values[:, None])
    return merged([(others, rows.take(others)), (place, constants)])


def _tables(rows: FactorRows, values: FloatArray) -> FactorRows:
    """The rows as tables of these log values [N, size]."""
    none = np.zeros(rows.num_factors + 1, np.int64)
    sizes = ptr_of(np.full(rows.num_factors, values.shape[1]))
    return rows.as_kind(TABLE).with_values(sizes, values.ravel()).with_words(none, none[:0])
