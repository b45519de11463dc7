# mypy: ignore-errors
"""What both greedy rules for elimination orders share: a heap of prices, the account of a component, growing lists.

Sizes are in bits: log2 of a number of states. A rule fills the same arrays, one entry per connected component:
`entries` [C] of all cluster tables, infinite where the component was given up because they passed `most_entries` [C],
all messages `most_kept`, or one of them `most_message`; `kept` [C] entries of all messages; `largest` [C] bits of a
table; and `place` [V], when each variable is eliminated. It returns the number of list operations it made, about 5 ns
each; past `most_work` of them every component is given up.
"""

import math

import numpy as np

from equifactor.numerics.jit import kernel

MOST_BITS = 500.0  # tables above are all equally hopeless; keeps powers of two finite
SPREAD = 1e-7  # of the random number that decides between equal prices


@kernel
def pay(c, cluster_bits, own_bits, most_entries, most_kept, most_message, entries, kept, largest):
    """Account for one cluster; whether its component is given up."""
    entries[c] += 2.0 ** min(cluster_bits, MOST_BITS)
    kept[c] += 2.0 ** min(cluster_bits - own_bits, MOST_BITS)
    largest[c] = max(largest[c], cluster_bits)
    over = entries[c] >= most_entries[c] or kept[c] > most_kept
    over = over or 2.0 ** min(cluster_bits - own_bits, MOST_BITS) > most_message
    if over:
        entries[c] = math.inf
    return over


@kernel
def settle(heap, where, key, n, length):
    """Move the variable at heap position n to where its price puts it; the cheapest is first."""
    i = heap[n]
    while n > 0 and key[heap[(n - 1) // 2]] > key[i]:
        heap[n] = heap[(n - 1) // 2]
        where[heap[n]] = n
        n = (n - 1) // 2
    while True:
        child = 2 * n + 1
        if child >= length:
            break
        if child + 1 < length and key[heap[child + 1]] < key[heap[child]]:
            child += 1
        if key[heap[child]] >= key[i]:
            break
        heap[n] = heap[child]
        where[heap[n]] = n
        n = child
    heap[n] = i
    where[i] = n


@kernel
def longer(values, count, room):
    """The first `count` numbers in a new array with space for `room`."""
    new = np.empty(room, np.int64)
    for n in range(count):
        new[n] = values[n]
    return new
