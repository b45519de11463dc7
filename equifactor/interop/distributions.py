"""Conditional distributions of other packages, which must be such."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.parents import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.typing import FloatArray


def check_distribution(child: object, parents: Sequence[object], table: FloatArray) -> None:
    """Refuse a table [child, *parents] that does not sum to 1 over its child for all states of the parents."""
    sums = np.asarray(table.sum(axis=0))
    wrong = ~(np.abs(sums - 1.0) <= ROUNDING)  # so that NaN is wrong as well
    if wrong.any():
        row = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        given = ", ".join(f"state {x} of {parent}" for parent, x in zip(parents, row, strict=True))
        raise ModelError(
            f"expected probabilities of {child} that sum to 1{f' given {given}' if given else ''}, found a sum of "
            f"{sums[row]:.6g}"
        )
