"""How parities are compared: as systems (`symmetry.parity_systems`), but constant ones as counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.kind_comparison import KindComparison
from equifactor.graph.factor_rows import merged
from equifactor.graph.kinds import kind_number
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.graph.factor_rows import FactorRows


class ParityComparison(KindComparison):
    """The comparison of parities."""

    def restated(self, rows: FactorRows) -> FactorRows:
        """Return parities with equal values for even and odd as counts with equal values."""
        level = rows.log_values[::2] == rows.log_values[1::2]
        places, others = np.flatnonzero(level), np.flatnonzero(~level)
        return merged([(places, _constant_counts(rows.take(places))), (others, rows.take(others))])


def _constant_counts(rows: FactorRows) -> FactorRows:
    values = np.repeat(rows.log_values[::2], rows.arity + 1)
    words = np.ones(len(rows.scope_vars), np.int64)
    counts = rows.as_kind(kind_number("count")).with_values(ptr_of(rows.arity + 1), values)
    return counts.with_words(rows.scope_ptr, words)
