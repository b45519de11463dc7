"""Potts factors: two variables tend to be in the same state, or in different states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.label_pairs import LabelPair
from equifactor.graph.factor_rows import row_sums
from equifactor.graph.structured_factor import edge_state_ptr, log_number

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, FloatArray, IntArray
    from equifactor.graph.factor_rows import FactorRows


@dataclass(frozen=True)
class Potts(LabelPair):
    """`exp(weight)` where both variables are in the same state, 1 elsewhere.

    Args:
        weight: above 0 if equal states attract, below 0 if they repel; `-inf` forbids equal states.
        otherwise: the log value of different states; `-inf` forbids them.
        labels: a label per state for each of the two variables, if equal state numbers do not mean the same.

    Examples:
        >>> from equifactor import FactorGraph, Potts
        >>> FactorGraph([5, 5], [([0, 1], Potts(0.7))]).log_score([3, 3])
        0.7
    """

    weight: float
    otherwise: float = 0.0
    labels: tuple[Sequence[int], Sequence[int]] | None = None  # type: ignore[assignment]

    kind = "potts"
    has_kernels = True
    moves = "equifactor.factors.potts.potts_moves:potts_moves"
    tensors = "equifactor.factors.potts.potts_tensors:PottsTensors"

    def row(self, card: tuple[int, ...]) -> tuple[FloatArray, IntArray]:
        """Return the log values of equal and of different states; the labels."""
        values = [log_number(self.weight, "The weight of a potts factor")]
        values.append(log_number(self.otherwise, "The log value of different states"))
        return np.array(values), self._labels(card)

    @classmethod
    def of_row(cls, card: tuple[int, ...], log_values: FloatArray, words: IntArray) -> Potts:
        """Return the object; labels are left out if they are the states."""
        equal, different = log_values.tolist()
        return cls(equal, different, cls.labels_of_row(card, words))

    @classmethod
    def values_of_labels(cls, log_values: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return one of two values."""
        return np.where(first == second, log_values[:, 0], log_values[:, 1])

    @classmethod
    def unsupported(cls, rows: FactorRows, possible: BoolArray) -> BoolArray:
        """Exclude a state without a possible partner, of equal or different label, that the factor allows."""
        first = edge_state_ptr(rows)
        edge = np.repeat(np.arange(len(rows.card)), rows.card)
        row = rows.row_of_edge[edge]
        alive = row_sums(possible.astype(np.int64), first)  # [e]
        # A label that is possible on both sides is met twice among the possible states of its factor.
        width = int(rows.words.max(initial=0)) + 1
        met = np.bincount((row * width + rows.words)[possible], minlength=rows.num_factors * width)
        others = alive[edge ^ 1]
        has_like = met[row * width + rows.words] - possible > 0
        equal, different = (np.isneginf(rows.log_values.reshape(-1, 2)[row, n]) for n in (0, 1))
        return ~((has_like & ~equal) | ((others - has_like > 0) & ~different))
