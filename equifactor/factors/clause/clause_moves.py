"""Clauses in searches by single changes.

Clauses are kept apart from other kinds and small, since formulas have millions of them and searches wait for memory
more than for arithmetic. The one word of a clause holds the number of literals that hold. Below `ONE_LITERAL` it holds
the exclusive or of their names: if one literal holds, this is its name. The name of a literal is the variable state in
which it fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.move_rows import MoveRows, counted_moves

if TYPE_CHECKING:
    from equifactor.graph.factor_rows import FactorRows


LITERAL_BITS = 40  # Bits of the name of a literal in the word of a clause.
ONE_LITERAL = (
    1 << LITERAL_BITS
)  # Each literal that holds adds this to the word of its clause. Names of literals are smaller.


def clause_moves(rows: FactorRows) -> MoveRows:
    """Return the moves of clauses."""
    violated = np.where(np.isneginf(rows.log_values), 0.0, rows.log_values)
    return counted_moves(rows, rows.words, np.minimum(violated, 0.0), np.maximum(violated, 0.0))
