# mypy: ignore-errors
"""The parts that both greedy rules for elimination orders share: a queue of prices, costs per component, growing lists.

Sizes are in bits: log2 of a number of states. A rule repeatedly eliminates the cheapest variable and adds up the cost
of every cluster. A component whose tables exceed a limit is abandoned. A rule returns the number of list operations it
made, about 5 ns each.
"""

import math
from typing import NamedTuple

import numpy as np

from equifactor.base.typing import FloatArray, IntArray
from equifactor.kernels.heaps import settle
from equifactor.kernels.jit import inlined, kernel
from equifactor.solvers.elimination.orders import MOST_BITS

SPREAD = 1e-7  # a random number times this decides between equal prices


class TryLimits(NamedTuple):
    """The limits of one try: a component that exceeds one is abandoned."""

    label: IntArray  # [V] connected component of each variable
    most_entries: FloatArray  # [C] entries of all cluster tables, those of the best try so far
    most_kept: float  # entries of all messages
    most_message: float  # entries of one message
    most_work: float  # list operations, after which every component is abandoned


class TryOutcome(NamedTuple):
    """The result of one try, filled in by a rule."""

    entries: FloatArray  # [C] entries of all cluster tables, infinite if the component was abandoned
    kept: FloatArray  # [C] entries of all messages
    largest: FloatArray  # [C] bits of the largest table
    place: IntArray  # [V] when each variable is eliminated


@kernel
def price_heap(price):
    """Return the variables as a heap, the cheapest first: `key` [V], which falls with the price, `heap` and `where`."""
    key = -price
    heap, where = np.arange(len(key)), np.arange(len(key))
    for n in range(len(key)):  # one after another: `settle` needs all items before the new one in order
        settle(heap, where, key, n, n + 1)
    return key, heap, where


@inlined
def set_price(u, price, key, heap, where, left):
    """Change the price of a variable that is among the `left` first of the heap."""
    key[u] = -price
    settle(heap, where, key, where[u], left)


@kernel
def next_variable(key, heap, where, left, work, limits, outcome):
    """Take out the cheapest variable of a component that is not abandoned, and record its place; -1 at the end.

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
    """Set the costs of every component to zero."""
    outcome.entries[:] = 0.0
    outcome.kept[:] = 0.0
    outcome.largest[:] = 0.0


@inlined
def give_up(v, message_bits, own_bits, limits, outcome):
    """Add the cost of the cluster of variable v; return whether its component is abandoned."""
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
    """Return the first `count` numbers in a new array with space for `room`."""
    new = np.empty(room, np.int64)
    for n in range(count):
        new[n] = values[n]
    return new
