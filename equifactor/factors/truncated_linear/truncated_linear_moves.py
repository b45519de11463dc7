"""Truncated linear factors in searches by single changes: the words are the labels of both variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.move_rows import MoveRows, labelled_moves
from equifactor.factors.truncated_linear import TruncatedLinear

if TYPE_CHECKING:
    from equifactor.graph.factor_rows import FactorRows


def truncated_linear_moves(rows: FactorRows) -> MoveRows:
    """Return the moves of truncated linear factors.

    Without a limit, the cost of the largest distance becomes the limit, so that no value is zero.
    """
    part = labelled_moves(rows)
    part.low, part.high = -TruncatedLinear.log_ranges(rows), np.zeros(rows.num_factors)
    part.values = np.stack((rows.log_values[::2], np.maximum(rows.log_values[1::2], part.low)), axis=1).ravel()
    part.can_vanish = False
    return part
