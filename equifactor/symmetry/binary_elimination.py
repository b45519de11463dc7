"""Linear algebra over the two numbers 0 and 1. Rows are whole numbers, one bit per column, added by exclusive or."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.base.typing import BoolArray, IntArray


def masks_of(row: IntArray, column: IntArray, num_rows: int, num_columns: int) -> tuple[list[int], IntArray]:
    """Return the rows of a matrix with ones at (row, column) [e] as numbers, and the bit [num_columns] of each column.

    Columns with few ones have the high bits. Rows are reduced from the high bits on. So a column with a single 1
    eliminates its row at once.
    """
    by_degree = np.argsort(-np.bincount(column, minlength=num_columns), kind="stable")
    bit = np.empty(num_columns, np.int64)
    bit[by_degree] = np.arange(num_columns)
    masks = [0] * num_rows
    for r, b in zip(row.tolist(), bit[column].tolist(), strict=True):
        masks[r] ^= 1 << b
    return masks, bit


def dependencies(masks: Sequence[int]) -> list[int]:
    """Return a basis of the sets of rows whose sum is zero; bit n of a set is row n. Cost O(rows^2 columns / 64)."""
    known: dict[int, tuple[int, int]] = {}  # By their highest bit: sums of rows, and the sets of rows that are summed.
    found = []
    for n, mask in enumerate(masks):
        rows = _enter(known, mask, 1 << n)
        if rows is not None:
            found.append(rows)
    return found


def solve_rows(masks: Sequence[int], wanted: BoolArray) -> tuple[int, bool]:
    """Return the columns, as bits, whose sum gives rows the parities `wanted` [rows], and whether all rows get them.

    Earlier rows have priority: a row that does not depend on earlier rows always gets its wanted parity.
    """
    known: dict[int, tuple[int, int]] = {}  # By their highest bit: sums of rows, and whether they must be odd.
    all_met = True
    for row, wanted_odd in zip(masks, wanted.tolist(), strict=True):
        all_met &= not _enter(known, row, wanted_odd)
    columns = 0
    for top in sorted(known):  # In this order, all columns below the highest bit of a row are decided already.
        mask, odd = known[top]
        if (mask & columns).bit_count() % 2 != odd:
            columns |= 1 << (top - 1)
    return columns, all_met


def _enter(known: dict[int, tuple[int, int]], mask: int, mark: int) -> int | None:
    """Reduce a row by the known rows and store it under its highest bit, or return its mark if nothing is left."""
    while mask:
        top = mask.bit_length()
        if top not in known:
            known[top] = (mask, mark)
            return None
        mask, mark = mask ^ known[top][0], mark ^ known[top][1]
    return mark


def light_sums(basis: Sequence[int], limit: int) -> list[int] | None:
    """Return the lightest sums of the basis that span the same space: all of one weight, all of the next, and so on.

    The result does not depend on the choice of the basis. Return None if the basis has more than `limit` elements.
    """
    if len(basis) > limit:
        return None
    sums = [(0, 0)]  # All sums, each with the set of the basis elements that it contains.
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
    """Return the positions of the ones of a number, lowest first."""
    places = []
    while number:
        places.append((number & -number).bit_length() - 1)
        number &= number - 1
    return places
