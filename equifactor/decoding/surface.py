"""Rotated surface codes, a family of codes with a threshold, as error models at code capacity (noise on data only)."""

from __future__ import annotations

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.decoding.error_model import ErrorModel
from equifactor.generators.argument_checks import whole


def surface_code(distance: int, prior: float) -> ErrorModel:
    """Return the X errors on the data qubits of a rotated surface code, each with probability `prior`.

    The distance d is odd. The code has d^2 qubits and (d^2 - 1)/2 Z checks, and its observable is the Z logical
    operator. If `prior` is below a threshold near 10 %, a larger code is better.

    >>> import equifactor as ef
    >>> ef.decoding.surface_code(5, 0.05)
    ErrorModel(25 errors, 12 detectors, 1 observables, 40 edges)
    """
    d = whole("distance", distance, 3)
    if d % 2 == 0:
        raise OptionError(f"distance must be odd, found {d}.")
    checks = []
    # A plaquette has a qubit at each corner that lies in the square. Z plaquettes alternate with X plaquettes. At the
    # border, Z plaquettes lie above and below the square, and X plaquettes to its left and right.
    for row in range(d + 1):
        for column in range(1, d):
            if (row + column) % 2 == 1:
                inside = [r * d + c for r in (row - 1, row) for c in (column - 1, column) if 0 <= r < d]
                checks.append(np.isin(np.arange(d * d), inside))
    left = np.arange(d * d) % d == 0  # Every chain of X errors that no check sees crosses this column.
    return ErrorModel.of_matrices(np.array(checks), prior, left[None])
