"""The factors of one kind as searches by single changes see them: slots and running words; see `move_kinds`.

N factors, e edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_rows import FactorRows


@dataclass
class MoveRows:
    """The factors of one kind as slots and words."""

    factors: FactorRows
    turn: IntArray  # [e]
    weight: IntArray  # [e, 2]
    base: IntArray  # [N, 2]
    values: FloatArray  # Those of factor n are values[value_ptr[n]:value_ptr[n+1]], -inf for a zero.
    value_ptr: IntArray  # [N+1]
    low: FloatArray  # [N] No value above zero is lower.
    high: FloatArray  # [N] No value is higher.
    can_vanish: bool  # Some factor may be zero.
    keys: IntArray | None = None  # One per value but the first of each factor.
    labels: IntArray | None = None  # The labels that turns of 2 and more point to.


def counted_moves(rows: FactorRows, sign: IntArray, low: FloatArray, high: FloatArray) -> MoveRows:
    """Return factors whose first word counts the variables in the state `sign` [e]."""
    weight = np.zeros((len(sign), 2), np.int64)
    weight[:, 0] = 1
    base = np.zeros((rows.num_factors, 2), np.int64)
    zero = bool(np.isneginf(rows.log_values).any())
    return MoveRows(rows, 1 - sign, weight, base, rows.log_values, rows.value_ptr, low, high, zero)


def value_bounds(rows: FactorRows) -> tuple[FloatArray, FloatArray]:
    """Return [N] the lowest value above zero and the highest value of each factor, 0 where it has none."""
    starts = rows.value_ptr[:-1]
    low = np.minimum.reduceat(np.where(np.isneginf(rows.log_values), np.inf, rows.log_values), starts)
    high = np.maximum.reduceat(rows.log_values, starts)
    return np.where(np.isinf(low), 0.0, low), np.where(np.isinf(high), 0.0, high)


def labelled_moves(rows: FactorRows) -> MoveRows:
    """Return the moves of factors whose words are labels, to which the turns point."""
    count = rows.num_factors
    turn = 2 + ptr_of(rows.card)[:-1]
    weight = np.tile(np.eye(2, dtype=np.int64), (count, 1))
    base = np.zeros((count, 2), np.int64)
    low, high = value_bounds(rows)
    zero = bool(np.isneginf(rows.log_values).any())
    return MoveRows(rows, turn, weight, base, rows.log_values, rows.value_ptr, low, high, zero, labels=rows.words)
