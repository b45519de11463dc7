"""A check of conditional distributions from other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.parents import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.typing import FloatArray


def check_distribution(child: object, parents: Sequence[object], table: FloatArray) -> None:
    """Raise `ModelError` if a table [child, *parents] does not sum to 1 over its child for all parent states."""
    sums = np.asarray(table.sum(axis=0))
    wrong = ~(np.abs(sums - 1.0) <= ROUNDING)  # this form also catches NaN
    if wrong.any():
        row = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        given = ", ".join(f"state {x} of {parent}" for parent, x in zip(parents, row, strict=True))
        raise ModelError(
            f"The probabilities of {child}{f' given {given}' if given else ''} sum to {sums[row]:.6g}. They must sum "
            "to 1."
        )
