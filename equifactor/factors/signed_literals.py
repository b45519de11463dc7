"""What clauses and counts share: one word per variable, the state in which its literal holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.structured_factor import StructuredFactor

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.factor_rows import FactorRows


class SignedLiterals(StructuredFactor):
    """A factor over binary variables whose words are signs: 1 where a literal holds in state 1, 0 where in state 0."""

    @classmethod
    def with_states(cls, rows: FactorRows, new_state: IntArray, new_card: IntArray) -> FactorRows:
        """Negate the literal of a variable whose states are swapped."""
        return rows.with_words(rows.word_ptr, rows.words ^ new_state.reshape(-1, 2)[:, 0])

    @classmethod
    def with_slots(cls, rows: FactorRows, edge: IntArray) -> FactorRows:
        """Move signs along with their variables."""
        return replace(rows, scope_vars=rows.scope_vars[edge], card=rows.card[edge], words=rows.words[edge])

    @staticmethod
    def holding(rows: FactorRows, states: IntArray) -> IntArray:
        """Return [n, N] how many literals of each factor hold at the states [n, e] of its edges."""
        count: IntArray = rows.sum_of_edges((states == rows.words).T.astype(np.int64)).T
        return count
