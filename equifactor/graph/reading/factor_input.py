"""Factors as a user states them, tables and others mixed, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.factor_rows import FactorRows, merged
from equifactor.graph.kinds import kind_class
from equifactor.graph.reading import inputs
from equifactor.graph.small_scopes import without_small_scopes
from equifactor.graph.structured_factor import TABLE, StructuredFactor
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray


def read_rows(old: FactorRows, card: IntArray, scopes: list[list[int]], tables: list[Any], log: bool) -> FactorRows:
    """The rows `old` and behind them new factors: numbers of variables, and tables or structured factors.

    Tables hold natural logarithms where `log` is set. A factor over one variable or none becomes a table.
    """
    first = old.num_factors
    kinds, values, words = [], [], []
    for n, (scope, table) in enumerate(zip(scopes, tables, strict=True)):
        shape = tuple(card[scope].tolist())
        if isinstance(table, StructuredFactor):
            try:
                own, whole = table.row(shape)
            except ModelError as error:
                raise ModelError(f"factor {first + n}: {error}", factor=first + n) from None
            bad = np.isnan(own) | (own == np.inf)
            if bad.any():
                raise ModelError(f"factor {first + n}: a log value must be a number below infinity", factor=first + n)
        else:
            flat = inputs.read_table(first + n, shape, table).ravel()
            own = inputs.read_potentials(np.array([0, flat.size]), flat, log, first + n)
            whole = np.zeros(0, np.int64)
        kinds.append(table.number if isinstance(table, StructuredFactor) else TABLE)
        values.append(own)
        words.append(whole)
    none = np.zeros(0, np.int64)
    scope_vars = np.concatenate([none, *(np.array(s, np.int64) for s in scopes)])
    new = FactorRows(
        np.array(kinds, np.int64),
        ptr_of([len(s) for s in scopes]), scope_vars,
        ptr_of([len(v) for v in values]), np.concatenate([np.zeros(0), *values]),
        ptr_of([len(w) for w in words]), np.concatenate([none, *words]),
        card[scope_vars],
    )  # fmt: skip
    for number in np.unique(new.kind[new.kind != TABLE]).tolist():
        places, others = np.flatnonzero(new.kind == number), np.flatnonzero(new.kind != number)
        simpler = without_small_scopes(kind_class(number), new.take(places))
        new = merged([(others, new.take(others)), (places, simpler)])
    return merged([(np.arange(first), old), (first + np.arange(new.num_factors), new)])
