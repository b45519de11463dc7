"""Row pointers of ragged arrays that are stored flat: row n is `ptr[n]:ptr[n+1]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from equifactor.base.typing import IntArray


def ptr_of(lengths: ArrayLike) -> IntArray:
    """Return the pointer [N+1] of rows of these lengths [N]."""
    counts = np.asarray(lengths)
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def join_ptr(ptrs: Sequence[IntArray], rows_ptr: IntArray) -> IntArray:
    """Return one pointer [N+1] for the rows of all pointers; pointer g has rows `rows_ptr[g]:rows_ptr[g+1]`."""
    steps = np.diff(np.concatenate(ptrs))  # the lengths, and between two pointers a step back, which is deleted
    return ptr_of(np.delete(steps, rows_ptr[1:-1] + np.arange(len(ptrs) - 1)))


def row_of(ptr: IntArray) -> IntArray:
    """Return the row of each element."""
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


def place_in_row(ptr: IntArray) -> IntArray:
    """Return the place of each element within its row, counted from 0."""
    return np.arange(ptr[-1]) - np.repeat(ptr[:-1], np.diff(ptr))


def by_number(numbers: NDArray[np.integer]) -> IntArray:
    """Return the order [n] that sorts whole numbers [n] from 0 on; equal numbers keep their order.

    Each number is sorted together with its place, which takes a tenth of the time of a stable `argsort`.
    """
    bits = max(0, len(numbers) - 1).bit_length()
    if len(numbers) and int(numbers.max()) >> (63 - bits):
        return np.argsort(numbers, kind="stable")
    keys = np.asarray(numbers, np.int64) << bits
    keys |= np.arange(len(numbers))
    keys.sort()
    keys &= (1 << bits) - 1
    return keys


def picked(ptr: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the pointer of some rows, in their order, and the places of their elements."""
    new = ptr_of(ptr[rows + 1] - ptr[rows])
    return new, np.repeat(ptr[rows] - new[:-1], np.diff(new)) + np.arange(new[-1])
