"""Truncated linear factors: the further apart two states, the less likely, up to a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.factors.label_pairs import LabelPair
from equifactor.graph.factor_rows import row_any
from equifactor.graph.structured_factor import log_number

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.factor_rows import FactorRows


@dataclass(frozen=True)
class TruncatedLinear(LabelPair):
    """`exp(-min(slope * |x - y|, limit))` over two variables whose states are places on a line.

    Args:
        slope: the cost of a distance of one state, 0 or more.
        limit: the largest cost of any distance, 0 or more; infinite for no limit.
        labels: the position of each state for each of the two variables, if it is not the state number.

    Examples:
        >>> from equifactor import FactorGraph, TruncatedLinear
        >>> FactorGraph([9, 9], [([0, 1], TruncatedLinear(0.5, 2.0))]).log_score([1, 8])
        -2.0
    """

    slope: float
    limit: float = np.inf
    labels: tuple[Sequence[int], Sequence[int]] | None = None  # type: ignore[assignment]

    kind = "truncated_linear"
    has_kernels = True
    moves = "equifactor.factors.truncated_linear.truncated_linear_moves:truncated_linear_moves"
    tensors = "equifactor.factors.truncated_linear.truncated_linear_tensors:TruncatedLinearTensors"

    def row(self, card: tuple[int, ...]) -> tuple[FloatArray, IntArray]:
        """Return minus slope and minus limit; the words are the labels."""
        try:
            values = [log_number(-v, "minus a cost") for v in (self.slope, self.limit)]  # -inf is no limit
            fits = max(values) <= 0 and values[0] > -np.inf
        except (TypeError, ModelError):
            fits = False
        if not fits:
            raise ModelError(
                f"A truncated_linear factor needs a finite slope >= 0 and a limit >= 0, found {brief(self.slope)} "
                f"and {brief(self.limit)}."
            )
        return np.array(values), self._labels(card)

    @classmethod
    def of_row(cls, card: tuple[int, ...], log_values: FloatArray, words: IntArray) -> TruncatedLinear:
        """Return the object; labels are left out if they are the states."""
        slope, limit = (-log_values + 0.0).tolist()
        return cls(slope, limit, cls.labels_of_row(card, words))

    @classmethod
    def check(cls, rows: FactorRows) -> tuple[int, str] | None:
        """Require values of at most 0 and a finite slope."""
        wrong = super().check(rows)
        if wrong:
            return wrong
        bad = row_any(rows.log_values > 0, rows.value_ptr) | np.isneginf(rows.log_values[::2])
        return (int(np.argmax(bad)), "minus slope and minus limit must be at most 0") if bad.any() else None

    @classmethod
    def values_of_labels(cls, log_values: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return minus the cost of the distance, which is at most the limit."""
        return np.maximum(log_values[:, 0] * np.abs(first - second), log_values[:, 1])

    @classmethod
    def log_ranges(cls, rows: FactorRows) -> FloatArray:
        """Return the cost of the two labels furthest apart."""
        ends = rows.word_ptr[:-1]
        furthest = np.maximum.reduceat(rows.words, ends) - np.minimum.reduceat(rows.words, ends)
        return -np.maximum(rows.log_values[::2] * furthest, rows.log_values[1::2])

    @classmethod
    def unsupported(cls, rows: FactorRows, possible: BoolArray) -> BoolArray:
        """Exclude no state: the factor is never zero."""
        return np.zeros(len(possible), bool)
