# mypy: ignore-errors
"""Block moves: optimise a random forest inside a region exactly, with the rest held fixed.

A block is an induced forest: each variable has at most one earlier neighbour in it, its parent. A factor therefore
holds at most two variables of the block; with its other variables fixed, it is a table of one or two variables. With
noise on the states, the optimum of a block is close to a random draw from it, and reducing the noise anneals a region.
"""

from typing import NamedTuple

import numpy as np

from equifactor.factors.kind_block_kernels import FREE, free_factors, join_block, links_to_block, slot_link
from equifactor.factors.kind_moves import look
from equifactor.factors.moves import BASE, FACTOR, SLOT, STRIDE, TO, VARIABLE, states_of
from equifactor.kernels.fastmath import get, put
from equifactor.kernels.jit import fast_kernel, inlined
from equifactor.kernels.randomness import random_bell, random_below


class RegionArrays(NamedTuple):
    """Working space for one region and its blocks; between calls only `inside` must be zero and `held` free."""

    region: np.ndarray  # [V] the variables of the region come first
    before: np.ndarray  # [V] the states of the region's variables before the change, in the order of `region`
    inside: np.ndarray  # [V] 0 outside the region, 1 in it, 2 in the block while a forest grows
    block: np.ndarray  # [V] the variables of the block come first, parents before children
    parent: np.ndarray  # [V] the arc from a variable to its parent, -1 for a root
    links: np.ndarray  # [V] counts of neighbours in the block while it grows; marks of changed variables in `judge`
    queue: np.ndarray  # [V] variables that wait: in the growth of a forest, and in `judge`
    wanted: np.ndarray  # [V] the best states of a block; in `judge` the other states of the region's variables
    value: np.ndarray  # [X] the best score of the subtree below each variable of a block
    message: np.ndarray  # [largest cardinality] the message of a variable to its parent
    theta: np.ndarray  # [its square] the sum of the factors that depend on a variable and its parent
    # The last two are for structured factors, and None in a graph of tables: every call passes all fields.
    held: np.ndarray | None = None  # [N] the variable of the block in each structured factor; see `kind_block_kernels`
    partner: np.ndarray | None = None  # [V] the parent of a variable that is linked to it by a structured factor

    @classmethod
    def zeros(cls, card: np.ndarray, num_structured: int = 0) -> "RegionArrays":
        """Return arrays for variables of card [V] states and `num_structured` structured factors."""
        widest = int(card.max(initial=1))
        per_var = [np.zeros(len(card), np.int64) for _ in range(8)]
        arrays = cls(*per_var, np.zeros(int(card.sum())), np.zeros(widest), np.zeros(widest * widest))
        if not num_structured:
            return arrays
        return arrays._replace(held=np.full(num_structured, FREE), partner=np.zeros(len(card), np.int64))


@inlined
def grow_forest(arrays, work, rng, size):
    """Fill work.block and work.parent with a random induced forest within the region of `size` variables.

    Returns the number of its variables.
    """
    arc_ptr, arcs = arrays.arc_ptr, arrays.arcs
    region, inside, links, block, parent = work.region, work.inside, work.links, work.block, work.parent
    frontier, held = work.queue, work.held
    for n in range(size):
        links[region[n]] = 0
    count = 0
    offset = random_below(rng, size)
    for n in range(size):
        root = region[(n + offset) % size]
        if inside[root] != 1 or links[root] > 0:
            continue
        waiting = 1
        frontier[0] = root
        while waiting > 0:
            pick = random_below(rng, waiting)
            i = frontier[pick]
            waiting -= 1
            frontier[pick] = frontier[waiting]
            if links_to_block(arrays.kinds, links, held, i) > 1:
                continue  # it would close a cycle
            inside[i] = 2
            block[count] = i
            count += 1
            parent[i] = -1
            for r in range(arc_ptr[i], arc_ptr[i + 1]):
                j = arcs[r, TO]
                if inside[j] == 2:
                    parent[i] = r
                elif inside[j] == 1:
                    links[j] += 1
                    if links[j] == 1:
                        frontier[waiting] = j
                        waiting += 1
            waiting = join_block(arrays.kinds, work, i, waiting)
    free_factors(arrays.kinds, held, block, count)
    for n in range(count):
        inside[block[n]] = 1
    return count


@inlined
def join_links(arrays, state, c, r, theta):
    """Fill theta [card_c, card_q] with the factors that depend on both c and its parent q (arc r), the rest fixed."""
    pair, high, slots, factors, table = arrays.pair, arrays.high, arrays.slots, arrays.factors, arrays.table
    x, at = state.x, state.at
    q, base = arrays.arcs[r, TO], arrays.arcs[r, BASE]
    card_c, card_q = states_of(arrays.var_ptr, c)[1], states_of(arrays.var_ptr, q)[1]
    for n in range(card_c * card_q):
        theta[n] = get(pair, base + n) if base >= 0 else 0.0
    for n in range(arrays.high_ptr[c], arrays.high_ptr[c + 1]):
        s = high[n]
        p = slots[s, FACTOR]
        for t in range(factors[p, SLOT], factors[p + 1, SLOT]):
            if slots[t, VARIABLE] == q:
                row = at[p] - x[c] * slots[s, STRIDE] - x[q] * slots[t, STRIDE]
                for a in range(card_c):
                    for b in range(card_q):
                        theta[a * card_q + b] += table[row + a * slots[s, STRIDE] + b * slots[t, STRIDE]]


@inlined
def send_up(links, start, card_c, card_q, x_c, x_q, value, first_c, first_q, message):
    """Add the best score below the link to value[first_q:], for each state of the parent.

    `local` holds the link at the current state of the other end, so that value is subtracted at both ends. The
    arguments stay positional: this is the innermost step of a block, and most of them are numbers.
    """
    if card_c == 2 and card_q == 2:  # the most common link gets straight-line code
        t00, t01 = get(links, start), get(links, start + 1)
        t10, t11 = get(links, start + 2), get(links, start + 3)
        v0 = get(value, first_c) - (t01 if x_q else t00)
        v1 = get(value, first_c + 1) - (t11 if x_q else t10)
        put(value, first_c, v0)
        put(value, first_c + 1, v1)
        put(value, first_q, get(value, first_q) + max(v0 + t00, v1 + t10) - (t10 if x_c else t00))
        put(value, first_q + 1, get(value, first_q + 1) + max(v0 + t01, v1 + t11) - (t11 if x_c else t01))
        return
    for b in range(card_q):
        message[b] = -1e308
    for a in range(card_c):
        row = start + a * card_q
        v = value[first_c + a] - get(links, row + x_q)
        value[first_c + a] = v
        for b in range(card_q):
            put(message, b, max(v + get(links, row + b), get(message, b)))
    row = start + x_c * card_q
    for b in range(card_q):
        value[first_q + b] += message[b] - get(links, row + b)


@fast_kernel
def solve_forest(arrays, state, work, rng, count, heat):
    """Fill work.wanted with the best joint state of the block of `count` variables given the rest.

    Max-product from the leaves to the roots collects the best scores in work.value. The way down takes the maximum over
    one column of each link again instead of storing where it was. A positive `heat` adds noise of that size to every
    state.
    """
    var_ptr, arcs, pair, high_ptr = arrays.var_ptr, arrays.arcs, arrays.pair, arrays.high_ptr
    x, local, block, parent, wanted = state.x, state.local, work.block, work.parent, work.wanted
    value, message, theta, partner, at = work.value, work.message, work.theta, work.partner, state.at
    for n in range(count):
        i = block[n]
        look(arrays, state, i)
        for y in range(var_ptr[i], var_ptr[i + 1]):
            put(value, y, get(local, y) + (heat * random_bell(rng) if heat > 0.0 else 0.0))
    for n in range(count - 1, -1, -1):
        c = block[n]
        r = parent[c]
        if r >= 0:
            q = arcs[r, TO]
            first_c, card_c = states_of(var_ptr, c)
            first_q, card_q = states_of(var_ptr, q)
            if high_ptr[c] == high_ptr[c + 1]:  # two calls, because choosing an array would count references
                send_up(pair, arcs[r, BASE], card_c, card_q, x[c], x[q], value, first_c, first_q, message)
            else:
                join_links(arrays, state, c, r, theta)
                send_up(theta, 0, card_c, card_q, x[c], x[q], value, first_c, first_q, message)
        q = slot_link(arrays.kinds, var_ptr, x, at, parent, partner, theta, c)
        if q >= 0:
            first_c, card_c = states_of(var_ptr, c)
            first_q, card_q = states_of(var_ptr, q)
            send_up(theta, 0, card_c, card_q, x[c], x[q], value, first_c, first_q, message)
    for n in range(count):
        c = block[n]
        first, card = states_of(var_ptr, c)
        r = parent[c]
        if r >= 0:
            q = arcs[r, TO]
            card_q = states_of(var_ptr, q)[1]
            if high_ptr[c] == high_ptr[c + 1]:
                for a in range(card):
                    value[first + a] += get(pair, arcs[r, BASE] + a * card_q + wanted[q])
            else:
                join_links(arrays, state, c, r, theta)
                for a in range(card):
                    value[first + a] += theta[a * card_q + wanted[q]]
        q = slot_link(arrays.kinds, var_ptr, x, at, parent, partner, theta, c)
        if q >= 0:
            card_q = states_of(var_ptr, q)[1]
            for a in range(card):
                value[first + a] += theta[a * card_q + wanted[q]]
        pick = x[c]  # a variable stays where it is on ties
        for a in range(card):
            if value[first + a] > value[first + pick]:
                pick = a
        wanted[c] = pick
