"""Counts in searches by single changes: the first word is the number of literals that hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equifactor.factors.move_rows import MoveRows, counted_moves, value_bounds

if TYPE_CHECKING:
    from equifactor.graph.factor_rows import FactorRows


def count_moves(rows: FactorRows) -> MoveRows:
    """Return the moves of counts."""
    return counted_moves(rows, rows.words, *value_bounds(rows))
