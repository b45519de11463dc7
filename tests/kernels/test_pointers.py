"""Row pointers of ragged arrays."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.kernels.pointers import join_ptr, place_in_row, ptr_of, row_of


@pytest.mark.parametrize("lengths", [[], [0], [2, 0, 3], [1, 1, 1]])
def test_rows_and_places(lengths: list[int]) -> None:
    ptr = ptr_of(lengths)
    assert ptr.dtype == np.int64
    assert ptr.tolist() == [0, *np.cumsum(lengths, dtype=int).tolist()]
    assert row_of(ptr).tolist() == [n for n, length in enumerate(lengths) for _ in range(length)]
    assert place_in_row(ptr).tolist() == [k for length in lengths for k in range(length)]


def test_join_puts_the_rows_of_all_pointers_one_after_the_other() -> None:
    lengths = [[2, 0], [], [3]]
    joined = join_ptr([ptr_of(each) for each in lengths], ptr_of([len(each) for each in lengths]))
    assert joined.tolist() == ptr_of([2, 0, 3]).tolist()
