"""How noisy-ors are compared: by the inhibitor of each cause in its active state, and the place of the effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.kind_comparison import MARK, AuxiliaryTables, KindComparison
from equifactor.factors.noisy_or import log1mexp
from equifactor.factors.noisy_or.noisy_or_words import IN_SCOPE, ON

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph.factor_rows import FactorRows
    from equifactor.graph.structured_factor import StructuredFactor


class NoisyOrComparison(KindComparison):
    """The comparison of noisy-ors."""

    has_forms = True

    def tables(self, kind: type[StructuredFactor], rows: FactorRows) -> FloatArray:
        """Return [N, size] the log tables of noisy-ors of one arity.

        Their values are sums over the active causes, and the last bit of a sum depends on the order of its terms. Here
        the terms are added from the smallest to the largest, an order that no relabelling changes.
        """
        count, arity = rows.num_factors, int(rows.arity[0])
        words = rows.words.reshape(count, arity + 1)
        known, signs = words[:, :1], words[:, 1:]
        is_effect = np.arange(arity) == known - IN_SCOPE  # [N, k]
        is_head = np.zeros(len(rows.log_values), bool)
        is_head[rows.value_ptr[:-1]] = True
        inhibitor = np.zeros((count, arity))
        inhibitor[~is_effect] = rows.log_values[~is_head]
        digits = np.indices((2,) * arity).reshape(arity, -1).T  # [size, k]
        active = digits == signs[:, None]  # [N, size, k]
        terms = np.sort(np.where(active, inhibitor[:, None], 0.0), axis=2)
        log_off = np.repeat(rows.log_values[is_head][:, None], len(digits), axis=1)
        for k in range(arity):
            log_off = log_off + terms[:, :, k]
        on = np.where(known >= IN_SCOPE, (active & is_effect[:, None]).any(axis=2), known == ON)
        return np.where(on, log1mexp(log_off), log_off)

    def encode(
        self, new: AuxiliaryTables, factor: int, row: FactorRows, *, constant: bool = False, tolerance: float = 0.0
    ) -> None:
        """Add a table of the leak and the known state of the effect, and one table per variable."""
        head = new.variable(2)
        known = min(int(row.words[0]), IN_SCOPE)
        new.replace(factor, [head], np.array([row.log_values[0], MARK * (1 + known)]))
        active = row.words[1:]
        is_effect = np.arange(len(active)) == row.words[0] - IN_SCOPE
        tables = np.full((len(active), 2, 2), MARK)
        tables[:, 0] = 0.0
        tables[np.flatnonzero(~is_effect), 0, active[~is_effect]] = row.log_values[1:]
        tables[is_effect, 1] = 2 * MARK
        tables[np.flatnonzero(is_effect), 0, active[is_effect]] = 3 * MARK
        new.add(head, row.scope_vars, list(tables))

    def normal(self, row: FactorRows) -> FactorRows:
        """Return the row with active state 1 for each cause without an effect."""
        words = row.words.copy()
        is_cause = np.arange(row.arity[0]) != words[0] - IN_SCOPE
        causes = 1 + np.flatnonzero(is_cause)
        words[causes[row.log_values[1:] == 0.0]] = 1
        return row.with_words(row.word_ptr, words)
