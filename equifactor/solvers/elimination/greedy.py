# mypy: ignore-errors
"""What both greedy rules for elimination orders share: a queue of prices, the account of a component, growing lists.

Sizes are in bits: log2 of a number of states. A rule eliminates the cheapest variable again and again and accounts for
every cluster; a component whose tables pass a limit is given up. It returns the number of list operations it made,
about 5 ns each.
"""

import math
from typing import NamedTuple

import numpy as np

from equifactor.base.typing import FloatArray, IntArray
from equifactor.kernels.heaps import settle
from equifactor.kernels.jit import inlined, kernel

MOST_BITS = 500.0  # Tables above are all equally hopeless; powers of two stay finite.
SPREAD = 1e-7  # A random number times this decides between equal prices.


class TryLimits(NamedTuple):
    """What one try may cost: where a limit is passed, the component is given up."""

    label: IntArray  # [V] connected component of each variable
    most_entries: FloatArray  # [C] entries of all cluster tables, those of the best try so far
    most_kept: float  # entries of all messages
    most_message: float  # entries of one message
    most_work: float  # list operations, after which every component is given up


class TryOutcome(NamedTuple):
    """What one try found, filled in by a rule."""

    entries: FloatArray  # [C] entries of all cluster tables, infinite where the component was given up
    kept: FloatArray  # [C] entries of all messages
    largest: FloatArray  # [C] bits of the largest table
    place: IntArray  # [V] when each variable is eliminated


@kernel
def price_heap(price):
    """The variables as a heap, the cheapest first: `key` [V], which falls with the price, `heap` and `where`."""
    key = -price
    heap, where = np.arange(len(key)), np.arange(len(key))
    for n in range(len(key)):  # One after the other: `settle` needs all items before the new one in order.
        settle(heap, where, key, n, n + 1)
    return key, heap, where


@inlined
def set_price(u, price, key, heap, where, left):
    """Change the price of a variable that is among the `left` first of the heap."""
    key[u] = -price
    settle(heap, where, key, where[u], left)


@kernel
def next_variable(key, heap, where, left, work, limits, outcome):
    """Take out the cheapest variable of a component that is not given up, and note its place; -1 when there is none.

    Returns the variable and how many are left in the heap.
    """
    label, entries, place = limits.label, outcome.entries, outcome.place
    while left > 0:
        v = heap[0]
        left -= 1
        heap[0] = heap[left]
        where[heap[0]] = 0
        if left > 0:
            settle(heap, where, key, 0, left)
        if entries[label[v]] == math.inf:
            continue
        if work > limits.most_work:
            entries[:] = math.inf
            break
        place[v] = len(heap) - left
        return v, left
    return -1, 0


@kernel
def begin(outcome):
    """Set the account of every component to nothing."""
    outcome.entries[:] = 0.0
    outcome.kept[:] = 0.0
    outcome.largest[:] = 0.0


@inlined
def give_up(v, message_bits, own_bits, limits, outcome):
    """Account for the cluster of variable v; whether its component is given up for it."""
    entries, kept, largest = outcome.entries, outcome.kept, outcome.largest
    c = limits.label[v]
    message = 2.0 ** min(message_bits, MOST_BITS)
    entries[c] += 2.0 ** min(message_bits + own_bits, MOST_BITS)
    kept[c] += message
    largest[c] = max(largest[c], message_bits + own_bits)
    over = entries[c] >= limits.most_entries[c] or kept[c] > limits.most_kept or message > limits.most_message
    if over:
        entries[c] = math.inf
    return over


@kernel
def longer(values, count, room):
    """The first `count` numbers in a new array with space for `room`."""
    new = np.empty(room, np.int64)
    for n in range(count):
        new[n] = values[n]
    return new
