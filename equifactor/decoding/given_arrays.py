"""Arrays that users give: matrices, probabilities, shots and log ratios."""

from __future__ import annotations

from typing import Any

import numpy as np

from equifactor.base.errors import ModelError, brief


def read_array(name: str, given: Any) -> np.ndarray:
    """Return an array of numbers; raise `ModelError` if rows have different lengths or entries are not numbers."""
    try:
        array = np.asarray(given)
    except Exception as error:  # a foreign object may raise any error when numpy asks it for numbers
        ragged = "rows of different lengths: " if isinstance(error, ValueError) else ""
        raise ModelError(f"{name} must be an array of numbers, found {ragged}{brief(given)}.") from None
    if array.dtype.kind not in "buif":
        raise ModelError(f"{name} must be an array of numbers, found {brief(given)}.")
    return array
