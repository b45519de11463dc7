"""How clauses are compared: as counts of the literals that hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.kind_comparison import KindComparison
from equifactor.graph.kinds import kind_number
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.graph.factor_rows import FactorRows


class ClauseComparison(KindComparison):
    """The comparison of clauses."""

    def restated(self, rows: FactorRows) -> FactorRows:
        """Return clauses as counts of the literals that hold."""
        value_ptr = ptr_of(rows.arity + 1)
        values = np.zeros(value_ptr[-1])
        values[value_ptr[:-1]] = rows.log_values
        return rows.as_kind(kind_number("count")).with_values(value_ptr, values)
