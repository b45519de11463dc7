"""Factors that have at most one variable left: they become tables, which every solver takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.dense_rows import dense_rows
from equifactor.graph.factor_rows import merged
from equifactor.graph.structured_factor import TABLE

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray
    from equifactor.graph.factor_rows import FactorRows
    from equifactor.graph.structured_factor import StructuredFactor


def without_small_scopes(cls: type[StructuredFactor], rows: FactorRows) -> FactorRows:
    """Return rows of this class, or of tables, with tables in place of factors over fewer than two variables."""
    is_small = (rows.arity < 2) & (rows.kind != TABLE)
    if not is_small.any():
        return rows
    place, others = np.flatnonzero(is_small), np.flatnonzero(~is_small)
    return merged([(others, rows.take(others)), (place, dense_rows(cls, rows.take(place)))])


def as_constants(rows: FactorRows, which: BoolArray, log_values: FloatArray) -> FactorRows:
    """Return the rows with constants of these log values in place of the factors `which` [N] without variables."""
    if not which.any():
        return rows
    place, others = np.flatnonzero(which), np.flatnonzero(~which)
    constants = rows.take(place).as_tables(log_values[:, None])
    return merged([(others, rows.take(others)), (place, constants)])
