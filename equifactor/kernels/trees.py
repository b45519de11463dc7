"""Block moves: a random forest inside a region is optimised exactly, the rest held fixed.

A block is an induced forest: each variable has at most one neighbour in it that came earlier, its parent. So a factor
holds at most two variables of the block and becomes, the others fixed, a table of one or two variables. With noise on
the states the optimum of a block is close to a draw from it, and cooling the noise anneals a region.
"""

import numpy as np

from equifactor.kernels import fast_kernel, inlined
from equifactor.kernels.fastmath import get
from equifactor.kernels.moves import BASE, ENTRY, FACTOR, SLOT, STRIDE, TO, VARIABLE, move
from equifactor.kernels.randomness import random_below, random_gumbel, random_unit


@inlined
def grow_region(arc_ptr, arcs, rng, size, region, inside):
    """Fill `region` with `size` variables (or one component) around a random one; marks them in `inside`. The count."""
    i = random_below(rng, len(inside))
    region[0] = i
    inside[i] = 1
    count = 1
    n = 0
    while n < count and count < size:  # breadth first
        i = region[n]
        n += 1
        start, stop = arc_ptr[i], arc_ptr[i + 1]
        offset = random_below(rng, stop - start) if stop > start else 0
        for r in range(stop - start):  # from a random neighbour on: a ball cut short is not always cut on one side
            r = start + (r + offset) % (stop - start)
            j = arcs[r, TO]
            if inside[j] == 0 and count < size:
                inside[j] = 1
                region[count] = j
                count += 1
    return count


@inlined
def grow_forest(arc_ptr, arcs, rng, region, size, inside, links, block, parent, frontier):
    """A random induced forest within the region, parents first; the number of its variables.

    inside [V]: 0 outside, 1 in the region, 2 in the block. links [V] counts neighbours in the block (zero on entry).
    parent [V] is the arc from a variable to its parent, -1 for a root.
    """
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
            if links[i] > 1:
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
    return count


@inlined
def link_table(var_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, at, c, r, theta):
    """theta [card_c, card_q]: everything that depends on both c and its parent q (arc r), the rest fixed."""
    q, base = arcs[r, TO], arcs[r, BASE]
    card_c, card_q = var_ptr[c + 1] - var_ptr[c], var_ptr[q + 1] - var_ptr[q]
    if base >= 0:
        for n in range(card_c * card_q):
            theta[n] = get(pair, base + n)
    else:
        theta[: card_c * card_q] = 0.0
    for n in range(high_ptr[c], high_ptr[c + 1]):
        s = high[n]
        p = slots[s, FACTOR]
        for t in range(factors[p, SLOT], factors[p + 1, SLOT]):
            if slots[t, VARIABLE] == q:
                row = at[p] - x[c] * slots[s, STRIDE] - x[q] * slots[t, STRIDE]
                for a in range(card_c):
                    for b in range(card_q):
                        theta[a * card_q + b] += table[row + a * slots[s, STRIDE] + b * slots[t, STRIDE]]


@inlined
def solve_forest(
    var_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, rng, block, count, parent, heat, theta,
    value, message, wanted,
):  # fmt: skip
    """wanted [V]: the best joint state of the block given the rest, by max-product from the leaves to the roots.

    value [X] gathers, for each variable, the best score of the subtree below it; message [X] (by child and state of the
    *parent*) is not kept: the way down takes the maximum over one column again. heat > 0 adds Gumbel noise.
    """
    for n in range(count):
        i = block[n]
        for y in range(var_ptr[i], var_ptr[i + 1]):
            value[y] = local[y] + (heat * random_gumbel(rng) if heat > 0.0 else 0.0)
    for n in range(count - 1, -1, -1):
        c = block[n]
        r = parent[c]
        if r < 0:
            continue
        q = arcs[r, TO]
        first_c, first_q = var_ptr[c], var_ptr[q]
        card_c, card_q = var_ptr[c + 1] - first_c, var_ptr[q + 1] - first_q
        link_table(var_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, at, c, r, theta)
        for b in range(card_q):
            message[b] = -1e308
        for a in range(card_c):
            row = a * card_q
            value[first_c + a] -= theta[row + x[q]]  # `local` holds the pair at the current state of the other
            v = value[first_c + a]
            for b in range(card_q):
                u = v + get(theta, row + b)
                message[b] = u if u > message[b] else message[b]
        row = x[c] * card_q
        for b in range(card_q):
            value[first_q + b] += message[b] - theta[row + b]
    for n in range(count):
        c = block[n]
        first_c = var_ptr[c]
        card_c = var_ptr[c + 1] - first_c
        r = parent[c]
        if r >= 0:
            q = arcs[r, TO]
            card_q = var_ptr[q + 1] - var_ptr[q]
            link_table(var_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, at, c, r, theta)
            for a in range(card_c):
                value[first_c + a] += theta[a * card_q + wanted[q]]
        pick = x[c]  # stays where it is on ties
        for a in range(card_c):
            if value[first_c + a] > value[first_c + pick]:
                pick = a
        wanted[c] = pick


@fast_kernel
def anneal_regions(
    var_ptr, unary, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, rng, before, inside, links,
    region, block, parent, frontier, wanted, value, message, theta, regions, smallest, largest, blocks, heat, least,
):  # fmt: skip
    """Heat and cool so many random regions by block moves; one that ends lower than it began is put back.

    A region has `smallest` to `largest` variables (log-uniform) and gets `blocks` forests, the noise falling from a
    random part of `heat` to nothing. Returns what the score gained in all. Everything from `before` to `theta` is
    scratch: [V], but value [X], message [largest cardinality], theta [its square].
    """
    risen = 0.0
    for _ in range(regions):
        size = np.int64(smallest * (largest / smallest) ** random_unit(rng) + 0.5)
        size = grow_region(arc_ptr, arcs, rng, size, region, inside)
        for n in range(size):
            before[n] = x[region[n]]
        top = heat * random_unit(rng)
        change = 0.0
        for turn in range(blocks):
            part = 1.0 - (turn + 1.0) / blocks
            now = top * part
            for n in range(size):
                links[region[n]] = 0
            count = grow_forest(arc_ptr, arcs, rng, region, size, inside, links, block, parent, frontier)
            solve_forest(
                var_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, rng, block, count, parent, now,
                theta, value, message, wanted,
            )  # fmt: skip
            for n in range(count):
                inside[block[n]] = 1
                i = block[n]
                if wanted[i] != x[i]:
                    change += local[var_ptr[i] + wanted[i]] - local[var_ptr[i] + x[i]]
                    move(
                        var_ptr, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, i, wanted[i]
                    )  # fmt: skip
        if change < -least:
            for n in range(size):
                i = region[n]
                if x[i] != before[n]:
                    move(
                        var_ptr, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, i, before[n]
                    )  # fmt: skip
        else:
            risen += change
        for n in range(size):
            inside[region[n]] = 0
    return risen
