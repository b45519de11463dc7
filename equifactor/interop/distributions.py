"""A check of conditional distributions from other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.graph.parents import wrong_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.typing import FloatArray


def check_distribution(child: object, parents: Sequence[object], table: FloatArray) -> None:
    """Raise `ModelError` if a table [child, *parents] is not a distribution of its child for all parent states."""
    wrong = wrong_row(np.moveaxis(table, 0, -1))
    if wrong is not None:
        given = ", ".join(f"state {x} of {parent}" for parent, x in zip(parents, wrong[0], strict=True))
        raise ModelError(
            f"The probabilities of {child}{f' given {given}' if given else ''} {wrong[1]}. They must not be negative "
            "and must sum to 1."
        )
