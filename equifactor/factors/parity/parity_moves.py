"""Parities in searches by single changes: the first word is the number of ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.move_rows import MoveRows, counted_moves, value_bounds

if TYPE_CHECKING:
    from equifactor.graph.factor_rows import FactorRows


def parity_moves(rows: FactorRows) -> MoveRows:
    """Return the moves of parities."""
    return counted_moves(rows, np.ones(len(rows.card), np.int64), *value_bounds(rows))
