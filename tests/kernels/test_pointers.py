"""Row pointers of ragged arrays."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.kernels.pointers import by_number, join_ptr, place_in_row, ptr_of, row_of


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


@pytest.mark.parametrize("most", [1, 5, 2**40, 2**62])
@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_equal_numbers_keep_their_order(most: int, count: int) -> None:
    numbers = np.random.default_rng(0).integers(0, most, count)
    numbers[count // 2 :] = numbers[: count - count // 2]
    assert by_number(numbers).tolist() == np.argsort(numbers, kind="stable").tolist()
    if most < 2**31:
        assert by_number(numbers.astype(np.int32)).tolist() == np.argsort(numbers, kind="stable").tolist()
