"""The heaps of kernels against a sorted list."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.kernels.heaps import raise_key, set_key, settle
from equifactor.kernels.jit import kernel
from equifactor.solvers.messages.schedule_kernels import residual_queue


@kernel
def change_keys(key, item, place, which, values, adds):
    """Set or raise keys one after the other."""
    for n in range(len(which)):
        if adds[n]:
            raise_key(key, item, place, which[n], values[n])
        else:
            set_key(key, item, place, which[n], values[n])


@pytest.mark.parametrize("count", [1, 2, 4, 5, 6, 17, 100])
def test_the_largest_is_first_after_any_change(count: int) -> None:
    rng = np.random.default_rng(count)
    factors = np.arange(count)
    _, _, key, item, place = residual_queue(1, count, np.zeros(count, np.int64), factors)
    right = np.zeros(count)
    for n in range(300):
        which, value, adds = int(rng.integers(count)), float(rng.integers(20)), bool(rng.integers(2))
        if n % 3 == 0:  # as the schedule does: the first one falls
            which, value, adds = int(item[0]), 0.5 * key[0], False
        change_keys(key, item, place, np.array([which]), np.array([value]), np.array([adds]))
        right[which] = right[which] + value if adds else value
        assert key[0] == right.max()
        np.testing.assert_array_equal(key[:count], right[item])
        np.testing.assert_array_equal(item[place], factors)


def test_factors_without_edges_never_come_first() -> None:
    ptr, around, key, item, place = residual_queue(3, 4, np.array([2, 0, 2]), np.array([3, 3, 1]))
    np.testing.assert_array_equal(ptr, [0, 1, 1, 3])
    np.testing.assert_array_equal(around, [3, 3, 1])
    assert sorted(item[:2]) == [1, 3]
    assert np.isneginf(key[2:]).all()
    np.testing.assert_array_equal(item[place], np.arange(4))


@kernel
def settle_one(heap, place, key, n, length):
    """Call `settle`, which is inlined."""
    settle(heap, place, key, n, length)


def test_a_binary_heap_gives_its_items_back_in_order() -> None:
    """As in elimination, the cheapest item comes first, by negative prices, from a heap that shrinks."""
    rng = np.random.default_rng(0)
    price = rng.integers(0, 30, 50).astype(float)
    key, heap, place = -price, np.arange(50), np.arange(50)
    for n in range(50):
        settle_one(heap, place, key, n, n + 1)
    taken = []
    for left in range(49, -1, -1):
        taken.append(price[heap[0]])
        heap[0] = heap[left]
        place[heap[0]] = 0
        settle_one(heap, place, key, 0, max(left, 1))
        np.testing.assert_array_equal(heap[place[heap[:left]]], heap[:left])
    assert taken == sorted(price.tolist())
