"""Decimal text of potentials, which reads back to the same logarithm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import FloatArray


ENTRIES_AT_ONCE = 2**16  # Entries converted to text at a time: about 5 MB of Python strings.
_LOG_MAX = np.log(np.finfo(np.float64).max)  # The largest logarithm of a 64-bit float, 709.8.
# The logarithm of the smallest normal 64-bit float, -708.4. Smaller numbers lose digits and then become zero.
_LOG_MIN = np.log(np.finfo(np.float64).tiny)


def decimals(log_phi: FloatArray) -> Iterator[str]:
    """Yield the text of exp(log_phi) [T], entry by entry; `-inf` gives `0`.

    Each text is the shortest of 15, 16 and 17 significant digits whose logarithm is the given logarithm. If no float
    has that logarithm (close to 1 there are more logarithms than numbers), the text is the nearest float.
    Raises `ModelError` for values that a 64-bit float cannot hold. Cost O(T), memory O(1).
    """
    check_range(log_phi, "Write an .LG file instead, which holds logarithms.")
    for start in range(0, len(log_phi), ENTRIES_AT_ONCE):
        yield from _texts(log_phi[start : start + ENTRIES_AT_ONCE])


def check_range(log_phi: FloatArray, advice: str) -> None:
    """Raise `ModelError` if the exponential of a log potential [T] is neither zero nor a normal 64-bit float."""
    bad = (log_phi > _LOG_MAX) | ((log_phi < _LOG_MIN) & (log_phi != -np.inf))
    if bad.any():
        raise ModelError(
            f"A potential is exp({log_phi[int(np.argmax(bad))]:.6g}), outside the range of 64-bit numbers "
            f"(exp(-708) to exp(709)). {advice}"
        )


def _texts(log_phi: FloatArray) -> list[str]:
    phi = np.exp(log_phi)
    texts = [f"{x:.15g}" for x in phi.tolist()]
    wrong = _unequal(texts, log_phi, np.arange(len(texts)))
    for digits in (16, 17):
        for t in wrong.tolist():
            texts[t] = f"{phi[t]:.{digits}g}"
        wrong = _unequal(texts, log_phi, wrong)
    # exp rounds too: one of the two neighbouring floats may have the wanted logarithm if exp(log_phi) does not.
    for t in wrong.tolist():
        near = (float(np.nextafter(phi[t], 0.0)), float(np.nextafter(phi[t], np.inf)))
        texts[t] = next((repr(x) for x in near if np.log(x) == log_phi[t]), texts[t])
    return texts


def _unequal(texts: list[str], log_phi: FloatArray, among: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the entries in `among` whose text does not have the wanted logarithm."""
    with np.errstate(divide="ignore"):
        back = np.log(np.array([float(texts[t]) for t in among.tolist()]))
    return among[back != log_phi[among]]
