# mypy: ignore-errors
"""An indexed priority queue of numbered items, largest key first: a heap of four children per node.

`key [items + 3]` and `item [items]` lie in heap order, so a comparison reads one array; `place [items]` says where each
item is. Four children are one or two cache lines, and picking the largest of them takes no branch to be mispredicted:
half the time of a binary heap whose keys are looked up by item. `key` ends in three times -inf, so that every node with
children has four to look at.
"""

from equifactor.numerics.fastmath import get, put
from equifactor.numerics.jit import inlined


@inlined
def raise_key(key, item, place, which, more):
    """Add a positive amount to the key of one item; mostly it stays, at the price of one comparison."""
    n = get(place, which)
    value = get(key, n) + more
    while n > 0:
        above = (n - 1) >> 2
        if get(key, above) >= value:
            break
        put(key, n, get(key, above))
        put(item, n, get(item, above))
        put(place, get(item, n), n)
        n = above
    put(key, n, value)
    put(item, n, which)
    put(place, which, n)


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
        put(key, n, best)
        put(item, n, get(item, child))
        put(place, get(item, n), n)
        n = child
    put(key, n, value)
    put(item, n, which)
    put(place, which, n)


@inlined
def set_key(key, item, place, which, value):
    """Set the key of one item to any value."""
    more = value - get(key, get(place, which))
    if more > 0.0:
        raise_key(key, item, place, which, more)
    else:
        lower_key(key, item, place, which, value)
