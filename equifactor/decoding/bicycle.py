"""Bivariate bicycle codes, the quantum codes of [Bravyi24], as error models at code capacity (noise on data only)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import OptionError
from equifactor.base.options import choices
from equifactor.decoding.error_model import ErrorModel
from equifactor.generators.parity_checks import null_space

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The sizes of both cycles, and the exponents of x and y in the two polynomials.
BICYCLES = {
    "bb72": (6, 6, ((3, 0), (0, 1), (0, 2)), ((0, 3), (1, 0), (2, 0))),
    "bb90": (15, 3, ((9, 0), (0, 1), (0, 2)), ((0, 0), (2, 0), (7, 0))),
    "bb108": (9, 6, ((3, 0), (0, 1), (0, 2)), ((0, 3), (1, 0), (2, 0))),
    "bb144": (12, 6, ((3, 0), (0, 1), (0, 2)), ((0, 3), (1, 0), (2, 0))),
    "bb288": (12, 12, ((3, 0), (0, 2), (0, 7)), ((0, 3), (1, 0), (2, 0))),
}


def bicycle_code(name: str, prior: float) -> ErrorModel:
    """Return the X errors on the data qubits of a code such as `bb144`, each with probability `prior`.

    The observables are the Z logical operators of the code.

    >>> import equifactor as ef
    >>> ef.decoding.bicycle_code("bb72", 0.05)
    ErrorModel(72 errors, 36 detectors, 12 observables, 216 edges)
    """
    if not isinstance(name, str) or name not in BICYCLES:
        raise OptionError(f"There is no bicycle code {name!r}; {choices(name, list(BICYCLES))}.")
    rows, columns, first, second = BICYCLES[name]
    a, b = _polynomial(rows, columns, first), _polynomial(rows, columns, second)
    x_checks, z_checks = np.hstack((a, b)), np.hstack((b.T, a.T))
    return ErrorModel.of_matrices(z_checks, prior, _logicals(x_checks, z_checks))


def _polynomial(rows: int, columns: int, terms: Sequence[tuple[int, int]]) -> NDArray[np.uint8]:
    """Return a sum of products of shifts of the two cycles, as a matrix over 0 and 1."""
    total = np.zeros((rows * columns, rows * columns), np.uint8)
    for i, j in terms:
        shifts = (np.roll(np.eye(n, dtype=np.uint8), k, axis=1) for n, k in ((rows, i), (columns, j)))
        total ^= np.kron(*shifts)
    return total


def _logicals(x_checks: NDArray[np.uint8], z_checks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a basis of the Z operators that commute with all X checks, up to sums of Z checks."""
    chosen = []
    known: dict[int, int] = {}
    for n, row in enumerate((*z_checks, *null_space(x_checks)[0])):
        mask = int("".join(map(str, row.tolist())), 2)
        while mask and mask.bit_length() in known:
            mask ^= known[mask.bit_length()]
        if mask:
            known[mask.bit_length()] = mask
            if n >= len(z_checks):
                chosen.append(row)
    return np.array(chosen, np.uint8)
