"""Potentials as decimal text that reads back to the same logarithm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import FloatArray


BLOCK = 2**16  # entries that are turned into text at once: about 5 MB of Python strings
_LOG_MAX = np.log(np.finfo(np.float64).max)
_LOG_MIN = np.log(np.finfo(np.float64).tiny)  # below, numbers lose digits and then become true zeros


def decimals(log_phi: FloatArray) -> Iterator[str]:
    """Yield the text of exp(log_phi) [T], one entry after the other; `-inf` gives `0`.

    Each text is the shortest of 15, 16 and 17 significant digits whose logarithm is the given one. Where
    no float has that logarithm (close to 1 there are more logarithms than numbers) it is the nearest float.
    Raises `ModelError` for values that a 64-bit float cannot hold. Cost O(T), memory O(1).
    """
    check_range(log_phi, "write a format that holds logarithms (.LG) instead")
    for start in range(0, len(log_phi), BLOCK):
        yield from _block(log_phi[start : start + BLOCK])


def check_range(log_phi: FloatArray, advice: str) -> None:
    """Refuse log potentials [T] whose exponential is not a normal 64-bit float; true zeros are fine."""
    bad = (log_phi > _LOG_MAX) | ((log_phi < _LOG_MIN) & (log_phi != -np.inf))
    if bad.any():
        raise ModelError(
            f"a potential of exp({log_phi[int(np.argmax(bad))]:.6g}) is outside the range of 64-bit numbers "
            f"(exp(-708) to exp(709)); {advice}"
        )


def _block(log_phi: FloatArray) -> list[str]:
    phi = np.exp(log_phi)
    texts = [f"{x:.15g}" for x in phi.tolist()]
    wrong = _unequal(texts, log_phi, np.arange(len(texts)))
    for digits in (16, 17):
        for t in wrong.tolist():
            texts[t] = f"{phi[t]:.{digits}g}"
        wrong = _unequal(texts, log_phi, wrong)
    # exp rounds too: one of the two neighbours may have the wanted logarithm when exp(log_phi) has not.
    for t in wrong.tolist():
        near = (float(np.nextafter(phi[t], 0.0)), float(np.nextafter(phi[t], np.inf)))
        texts[t] = next((repr(x) for x in near if np.log(x) == log_phi[t]), texts[t])
    return texts


def _unequal(texts: list[str], log_phi: FloatArray, among: NDArray[np.intp]) -> NDArray[np.intp]:
    """The entries in `among` whose text does not have the wanted logarithm."""
    with np.errstate(divide="ignore"):
        back = np.log(np.array([float(texts[t]) for t in among.tolist()]))
    return among[back != log_phi[among]]
