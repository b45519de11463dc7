# mypy: ignore-errors
"""Block moves: a random forest inside a region is optimised exactly, the rest held fixed.

A block is an induced forest: each variable has at most one neighbour in it that came earlier, its parent. So a factor
holds at most two variables of the block and becomes, the others fixed, a table of one or two variables. With noise on
the states the optimum of a block is close to a draw from it, and cooling the noise anneals a region.
"""

from equifactor.numerics.fastmath import get, put
from equifactor.numerics.jit import fast_kernel, inlined
from equifactor.numerics.moves import BASE, FACTOR, SLOT, STRIDE, TO, VARIABLE
from equifactor.numerics.randomness import random_bell, random_below


@fast_kernel
def grow_forest(arc_ptr, arcs, rng, region, size, inside, links, block, parent, frontier):
    """A random induced forest within the region, parents first; the number of its variables.

    inside [V]: 0 outside, 1 in the region, 2 in the block (1 again at the end). links [V] counts neighbours in the
    block. parent [V] is the arc from a variable to its parent, -1 for a root. frontier [V] is scratch.
    """
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
    for n in range(count):
        inside[block[n]] = 1
    return count


@fast_kernel
def join_links(var_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, at, c, r, theta):
    """theta [card_c, card_q]: everything that depends on both c and its parent q (arc r), the rest fixed."""
    q, base = arcs[r, TO], arcs[r, BASE]
    card_c, card_q = var_ptr[c + 1] - var_ptr[c], var_ptr[q + 1] - var_ptr[q]
    for n in range(card_c * card_q):
        theta[n] = get(pair, base + n) if base >= 0 else 0.0
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
def send_up(links, start, card_c, card_q, x_c, x_q, value, first_c, first_q, message):
    """Add the best score below the link to value[first_q:], for each state of the parent.

    `local` holds the link at the current state of the other end, so that is taken off at both ends.
    """
    if card_c == 2 and card_q == 2:  # straight-line code for the most common link
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
def solve_forest(
    var_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, rng, block, count, parent, heat, theta,
    value, message, wanted,
):  # fmt: skip
    """wanted [V]: the best joint state of the block given the rest, by max-product from the leaves to the roots.

    value [X] gathers, for each variable, the best score of the subtree below it; the way down takes the maximum over
    one column of each link again instead of keeping where it was. heat > 0 adds noise of that size to every state.
    """
    for n in range(count):
        i = block[n]
        for y in range(var_ptr[i], var_ptr[i + 1]):
            put(value, y, get(local, y) + (heat * random_bell(rng) if heat > 0.0 else 0.0))
    for n in range(count - 1, -1, -1):
        c = block[n]
        r = parent[c]
        if r >= 0:
            q = arcs[r, TO]
            card_c, card_q = var_ptr[c + 1] - var_ptr[c], var_ptr[q + 1] - var_ptr[q]
            if high_ptr[c] == high_ptr[c + 1]:  # two calls: one that chose between arrays would count references
                send_up(pair, arcs[r, BASE], card_c, card_q, x[c], x[q], value, var_ptr[c], var_ptr[q], message)
            else:
                join_links(var_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, at, c, r, theta)
                send_up(theta, 0, card_c, card_q, x[c], x[q], value, var_ptr[c], var_ptr[q], message)
    for n in range(count):
        c = block[n]
        first = var_ptr[c]
        card = var_ptr[c + 1] - first
        r = parent[c]
        if r >= 0:
            q = arcs[r, TO]
            card_q = var_ptr[q + 1] - var_ptr[q]
            if high_ptr[c] == high_ptr[c + 1]:
                for a in range(card):
                    value[first + a] += get(pair, arcs[r, BASE] + a * card_q + wanted[q])
            else:
                join_links(var_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, at, c, r, theta)
                for a in range(card):
                    value[first + a] += theta[a * card_q + wanted[q]]
        pick = x[c]  # stays where it is on ties
        for a in range(card):
            if value[first + a] > value[first + pick]:
                pick = a
        wanted[c] = pick
