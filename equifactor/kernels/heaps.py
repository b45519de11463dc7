# mypy: ignore-errors
"""Heaps inside kernels: numbered items, the largest key first, with the current place of each item.

There are two heaps. `settle` keeps a binary heap whose keys are stored by item, for callers that also read the keys.
`raise_key`, `lower_key` and `set_key` keep a heap with four children per node, for queues that change all the time. Its
arrays `key [items + 3]` and `item [items]` are in heap order, so a comparison reads one array. `place [items]` is the
position of each item. Four children lie in one or two cache lines, and the largest of them is picked without a branch:
this takes half the time of a binary heap. The last three entries of `key` are -inf, so that every node with children
has four to compare.
"""

from equifactor.kernels.fastmath import get, put
from equifactor.kernels.jit import inlined


@inlined
def settle(heap, place, key, n, length):
    """Move the item at position n of a binary heap up or down to where its key puts it.

    All other items must be in order: after a change of one key, settle before changing the next. To build a heap,
    settle position 0, 1, .. in turn, each with a length of n + 1. For a heap with the smallest number first, pass the
    negated numbers as keys.

    Args:
        heap: [items] the items in heap order.
        place: [items] where each item is.
        key: [items] by item.
        n: the position whose item has a new key.
        length: the number of items that are still in the heap, the first ones of `heap`.
    """
    item = heap[n]
    while n > 0 and key[heap[(n - 1) // 2]] < key[item]:
        heap[n] = heap[(n - 1) // 2]
        place[heap[n]] = n
        n = (n - 1) // 2
    while True:
        child = 2 * n + 1
        if child >= length:
            break
        if child + 1 < length and key[heap[child + 1]] > key[heap[child]]:
            child += 1
        if key[heap[child]] <= key[item]:
            break
        heap[n] = heap[child]
        place[heap[n]] = n
        n = child
    heap[n] = item
    place[item] = n


@inlined
def raise_key(key, item, place, which, more):
    """Add a positive amount to the key of one item. Usually the item stays in place, which costs one comparison."""
    n = get(place, which)
    value = get(key, n) + more
    while n > 0:
        above = (n - 1) >> 2
        if get(key, above) >= value:
            break
        _set_node(key, item, place, n, get(key, above), get(item, above))
        n = above
    _set_node(key, item, place, n, value, which)


@inlined
def lower_key(key, item, place, which, value):
    """Set the key of one item to a value that is not above the present one."""
    n = get(place, which)
    while True:
        child = 4 * n + 1
        if child >= len(place):
            break
        k0, k1, k2, k3 = get(key, child), get(key, child + 1), get(key, child + 2), get(key, child + 3)
        left = child + (1 if k1 > k0 else 0)
        right = child + (3 if k3 > k2 else 2)
        best_left, best_right = max(k0, k1), max(k2, k3)
        child = right if best_right > best_left else left
        best = max(best_left, best_right)
        if best <= value:
            break
        _set_node(key, item, place, n, best, get(item, child))
        n = child
    _set_node(key, item, place, n, value, which)


@inlined
def set_key(key, item, place, which, value):
    """Set the key of one item to any value."""
    more = value - get(key, get(place, which))
    if more > 0.0:
        raise_key(key, item, place, which, more)
    else:
        lower_key(key, item, place, which, value)


@inlined
def _set_node(key, item, place, n, value, which):
    """Put an item and its key at position n."""
    put(key, n, value)
    put(item, n, which)
    put(place, which, n)
