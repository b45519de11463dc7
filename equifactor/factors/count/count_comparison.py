"""How counts are compared: by two auxiliary variables, one of two sides and the number of variables on it.

The tables hold the values by number as seen from each side, and for each variable which of its states is on which side.
The two sides may be exchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.kind_comparison import MARK, AuxiliaryTables, KindComparison

if TYPE_CHECKING:
    from equifactor.graph.factor_rows import FactorRows


class CountComparison(KindComparison):
    """The comparison of counts."""

    has_forms = True

    def encode(
        self, new: AuxiliaryTables, factor: int, row: FactorRows, *, constant: bool = False, tolerance: float = 0.0
    ) -> None:
        """Add a table of values by side and number, and one table per variable; a constant count has no sides."""
        if constant:
            head = new.variable(1)
            new.replace(factor, [head], row.log_values[:1])
            new.add(head, row.scope_vars, [np.full(2, 5 * MARK)] * len(row.scope_vars))
            return
        side, number = new.variable(2), new.variable(int(row.arity[0]) + 1)
        values, steps = row.log_values, MARK * np.arange(row.arity[0] + 1)
        new.replace(factor, [side, number], np.stack((values, values[::-1])))
        new.add(side, np.array([number]), [np.stack((steps, steps))])
        positive = np.where(np.eye(2), -np.inf, 0.0)  # Side 0 has the states that are counted.
        new.add(side, row.scope_vars, [positive if sign else positive[::-1] for sign in row.words.tolist()])

    def normal(self, row: FactorRows) -> FactorRows:
        """Return the side with the smaller values; if both have the same, the side of state 1 of the first variable."""
        values, turned = row.log_values, row.log_values[::-1]
        if (values == values[0]).all():
            return row.with_words(row.word_ptr, np.ones_like(row.words))
        differ = np.flatnonzero(values != turned)
        if (turned[differ[0]] < values[differ[0]]) if len(differ) else row.words[0] == 0:
            return row.with_values(row.value_ptr, turned.copy()).with_words(row.word_ptr, 1 - row.words)
        return row
