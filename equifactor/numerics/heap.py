# mypy: ignore-errors
"""An indexed binary heap of numbered items, largest key first."""

from equifactor.numerics.jit import inlined


@inlined
def settle(heap, place, key, n):
    """Move the item at heap position n up or down to where its key puts it; place [items] says where each item is.

    All other items must be in order: after a change of one key, settle before changing the next.
    """
    item = heap[n]
    while n > 0 and key[heap[(n - 1) // 2]] < key[item]:
        heap[n] = heap[(n - 1) // 2]
        place[heap[n]] = n
        n = (n - 1) // 2
    while True:
        child = 2 * n + 1
        if child >= len(heap):
            break
        if child + 1 < len(heap) and key[heap[child + 1]] > key[heap[child]]:
            child += 1
        if key[heap[child]] <= key[item]:
            break
        heap[n] = heap[child]
        place[heap[n]] = n
        n = child
    heap[n] = item
    place[item] = n
