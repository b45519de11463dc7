"""Linear algebra over the two numbers 0 and 1: rows as whole numbers, one bit per column, added by exclusive or."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.typing import BoolArray, IntArray


def masks_of(row: IntArray, column: IntArray, num_rows: int, num_columns: int) -> tuple[list[int], IntArray]:
    """The rows of the matrix with ones at (row, column) [e] as numbers, and the bit [num_columns] of each column.

    Columns with few ones have the high bits. Rows are reduced from the high bits on, so that a column of a single one
    settles its row at once.
    """
    by_degree = np.argsort(-np.bincount(column, minlength=num_columns), kind="stable")
    bit = np.empty(num_columns, np.int64)
    bit[by_degree] = np.arange(num_columns)
    masks = [0] * num_rows
    for r, b in zip(row.tolist(), bit[column].tolist(), strict=True):
        masks[r] ^= 1 << b
    return masks, bit


def dependencies(masks: Sequence[int]) -> list[int]:
    """A basis of the sets of rows whose sum is zero; bit n of a set is row n. Cost O(rows^2 columns / 64)."""
    known: dict[int, tuple[int, int]] = {}  # by their highest bit: sums of rows, and which rows
    found = []
    for n, mask in enumerate(masks):
        rows = _enter(known, mask, 1 << n)
        if rows is not None:
            found.append(rows)
    return found


def solve_rows(masks: Sequence[int], wanted: BoolArray) -> tuple[int, bool]:
    """Which columns to add up so that as many rows as possible, the first ones first, have their wanted [rows] sums.

    Returns the columns as bits, and whether all rows have what was wanted. Rows that do not depend on earlier ones
    always have it.
    """
    known: dict[int, tuple[int, int]] = {}  # by their highest bit: sums of rows, and whether they are to be odd
    all_met = True
    for row, wanted_odd in zip(masks, wanted.tolist(), strict=True):
        all_met &= not _enter(known, row, wanted_odd)
    columns = 0
    for top in sorted(known):  # what is below the highest bit of a row is settled when its turn comes
        mask, odd = known[top]
        if (mask & columns).bit_count() % 2 != odd:
            columns |= 1 << (top - 1)
    return columns, all_met


def _enter(known: dict[int, tuple[int, int]], mask: int, mark: int) -> int | None:
    """Enter a row, less what is known, under its highest bit; where nothing is left of it, what is left of its mark."""
    while mask:
        top = mask.bit_length()
        if top not in known:
            known[top] = (mask, mark)
            return None
        mask, mark = mask ^ known[top][0], mark ^ known[top][1]
    return mark


def light_sums(basis: Sequence[int], limit: int) -> list[int] | None:
    """The lightest sums of the basis that span the same space: all of one weight, all of the next, and so on.

    They do not depend on the choice of the basis. None where the basis has more than `limit` elements.
    """
    if len(basis) > limit:
        return None
    sums = [(0, 0)]  # all sums, and which elements of the basis are in them
    for n, element in enumerate(basis):
        sums += [(total ^ element, which | 1 << n) for total, which in sums]
    sums.sort(key=lambda one: one[0].bit_count())
    chosen: list[int] = []
    weight, rank, known = 0, 0, dict[int, int]()
    for total, which in sums[1:]:
        if rank == len(basis) and total.bit_count() > weight:
            break
        weight = total.bit_count()
        chosen.append(total)
        while which and which.bit_length() in known:
            which ^= known[which.bit_length()]
        if which:
            known[which.bit_length()] = which
            rank += 1
    return chosen


def bits_of(number: int) -> list[int]:
    """The places of the ones of a number, from the lowest on."""
    places = []
    while number:
        places.append((number & -number).bit_length() - 1)
        number &= number - 1
    return places
