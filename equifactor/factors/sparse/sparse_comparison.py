"""How sparse tables are compared: by a selector of a listed configuration, and the state of each variable in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.kind_comparison import MARK, AuxiliaryTables, KindComparison
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.graph.factor_rows import FactorRows


class SparseComparison(KindComparison):
    """The comparison of sparse tables, whose configurations with the default value do not count."""

    has_forms = True

    def encode(
        self, new: AuxiliaryTables, factor: int, row: FactorRows, *, constant: bool = False, tolerance: float = 0.0
    ) -> None:
        """Add a table of the values of all configurations, and one table per variable with its states in them."""
        row = _without_default(row, tolerance)
        selector = new.variable(len(row.log_values))
        new.replace(factor, [selector], row.log_values)
        listed = row.words.reshape(-1, row.arity[0])
        tables = []
        for k, d in enumerate(row.card.tolist()):
            table = np.full((len(listed) + 1, d), -np.inf)
            table[0] = MARK  # All configurations that are not listed.
            table[1 + np.arange(len(listed)), listed[:, k]] = 0.0
            tables.append(table)
        new.add(selector, row.scope_vars, tables)

    def normal(self, row: FactorRows) -> FactorRows:
        """Return the row with sorted configurations, without those that have the default value."""
        row = _without_default(row, 0.0)
        listed = row.words.reshape(-1, row.arity[0])
        order = np.lexsort(listed.T[::-1])
        values = np.concatenate((row.log_values[:1], row.log_values[1:][order]))
        return row.with_values(row.value_ptr, values).with_words(row.word_ptr, listed[order].ravel())


def _without_default(row: FactorRows, tolerance: float) -> FactorRows:
    """Return a sparse table without configurations that have its default value."""
    default, values = row.log_values[0], row.log_values[1:]
    kept = (values != default) & ~(np.isfinite(values) & (np.abs(values - max(default, -1e300)) <= tolerance))
    listed = row.words.reshape(-1, row.arity[0])[kept]
    log_values = np.concatenate(([default], values[kept]))
    return row.with_values(ptr_of([len(log_values)]), log_values).with_words(ptr_of([listed.size]), listed.ravel())
