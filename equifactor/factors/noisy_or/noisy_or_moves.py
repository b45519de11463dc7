"""Noisy-ors in searches by single changes.

The first word is the sum of the logs of leak and active inhibitors, in units. The second has 2 per certain cause, and 1
for the effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.move_rows import MoveRows
from equifactor.factors.noisy_or import NoisyOr, causes_of_edges
from equifactor.factors.noisy_or.noisy_or_words import ON

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.factor_rows import FactorRows


_UNITS = 2.0**61  # The words of a noisy-or stay below this.


def noisy_or_moves(rows: FactorRows) -> MoveRows:
    """Return the moves of noisy-ors.

    Logs of probabilities are whole numbers of a unit, so that moving a variable there and back is exact. The unit makes
    the sum of all of them about 2^61: no word overflows, and rounding is that of floating point.
    """
    sign, is_effect, inhibitor = causes_of_edges(rows)
    leak, known = rows.log_values[rows.value_ptr[:-1]], rows.words[rows.word_ptr[:-1]]
    certain_cause, certain_leak = np.isneginf(inhibitor), np.isneginf(leak)
    inhibitor, finite_leak = np.where(certain_cause, 0.0, inhibitor), np.where(certain_leak, 0.0, leak)
    total = -(finite_leak + rows.sum_of_edges(inhibitor))
    unit = np.where(total > 0.0, total, 1.0) / _UNITS

    def in_units(logs: FloatArray, unit: FloatArray) -> IntArray:
        whole = np.rint(logs / unit).astype(np.int64)
        return np.where(logs < 0.0, np.minimum(whole, -1), 0)

    weight = np.zeros((len(sign), 2), np.int64)
    weight[:, 0] = in_units(inhibitor, unit[rows.row_of_edge])
    weight[:, 1] = np.where(is_effect, 1, 2 * certain_cause)
    base = np.stack((in_units(finite_leak, unit), 2 * certain_leak + (known == ON)), axis=1)
    values = np.stack((unit, np.full(len(unit), -np.inf)), axis=1).ravel()
    count = rows.num_factors
    low = -NoisyOr.log_ranges(rows)
    return MoveRows(rows, 1 - sign, weight, base, values, 2 * np.arange(count + 1), low, np.zeros(count), True)
