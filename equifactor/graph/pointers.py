"""Row pointers: row n of a flat array is `ptr[n]:ptr[n+1]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from equifactor.typing import IntArray


def ptr_of(lengths: ArrayLike) -> IntArray:
    """[N+1] pointer of rows of these lengths [N]."""
    counts = np.asarray(lengths)
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def join_ptr(ptrs: Sequence[IntArray], rows_ptr: IntArray) -> IntArray:
    """[N+1] one pointer for all rows, one after the other; those of pointer g are `rows_ptr[g]:rows_ptr[g+1]`."""
    steps = np.diff(np.concatenate(ptrs))  # lengths, and from one pointer to the next a step back that is left out
    return ptr_of(np.delete(steps, rows_ptr[1:-1] + np.arange(len(ptrs) - 1)))


def row_of(ptr: IntArray) -> IntArray:
    """Row of each element."""
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
