# mypy: ignore-errors
"""Annealing one region at a time by block moves, and keeping only what improved."""

import numpy as np

from equifactor.numerics.jit import fast_kernel, inlined
from equifactor.numerics.moves import TO, move
from equifactor.numerics.randomness import random_below, random_unit
from equifactor.solvers.optimise.tree_blocks import grow_forest, solve_forest


@inlined
def grow_region(arc_ptr, arcs, rng, size, region, inside):
    """Fill region [size] breadth first from a random variable on, and mark its variables in `inside`.

    Where a component ends before the region is full, it goes on in another one.
    """
    num_vars = len(inside)
    offset = random_below(rng, num_vars)
    seed = 0
    count = 0
    n = 0
    while count < size:
        if n == count:
            i = (seed + offset) % num_vars
            seed += 1
            if inside[i] == 0:
                inside[i] = 1
                region[count] = i
                count += 1
            continue
        i = region[n]
        n += 1
        start = arc_ptr[i]
        degree = arc_ptr[i + 1] - start
        turn = random_below(rng, degree) if degree > 0 else 0
        for r in range(degree):  # from a random neighbour on, so that a ball is not always cut short on one side
            j = arcs[start + (r + turn) % degree, TO]
            if inside[j] == 0 and count < size:
                inside[j] = 1
                region[count] = j
                count += 1


@fast_kernel
def judge(
    var_ptr, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, region, size, inside, before,
    changed, queue, other, least,
):  # fmt: skip
    """Undo the parts of a change that were for the worse; what the score gains by that.

    Parts of the difference between x and before [size] (the states of the region's variables then) that share no
    factor are judged one by one. changed, queue, other [V] are scratch.
    """
    gained = 0.0
    for n in range(size):
        i = region[n]
        other[i] = before[n]
        changed[i] = 1 if x[i] != before[n] else 0
    for n in range(size):
        if changed[region[n]] == 0:
            continue
        queue[0] = region[n]
        changed[region[n]] = 0
        count = 1
        done = 0
        while done < count:
            i = queue[done]
            done += 1
            for r in range(arc_ptr[i], arc_ptr[i + 1]):
                j = arcs[r, TO]
                if inside[j] == 1 and changed[j] == 1:
                    changed[j] = 0
                    queue[count] = j
                    count += 1
        undo = 0.0
        for _ in range(2):  # back; and forth again unless that was better
            for m in range(count):
                i = queue[m]
                b = other[i]
                other[i] = x[i]
                undo += local[var_ptr[i] + b] - local[var_ptr[i] + x[i]]
                move(var_ptr, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, i, b)
            if undo > least:
                break
        gained += undo
    return gained


@fast_kernel
def anneal_regions(
    var_ptr, unary, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, rng, before, inside,
    links, region, block, parent, frontier, wanted, value, message, theta, regions, smallest, largest, blocks, heat,
    least,
):  # fmt: skip
    """Heat and cool so many random regions by block moves, keeping what improved; what the score gained.

    A region has `smallest` to `largest` variables (log-uniform) and gets `blocks` forests, the noise falling from a
    random part of `heat` to nothing. Everything from `before` to `theta` is scratch: [V] each (inside: all zero), but
    value [X], message [largest cardinality], theta [its square].
    """
    risen = 0.0
    for _ in range(regions):
        size = np.int64(smallest * (largest / smallest) ** random_unit(rng) + 0.5)
        grow_region(arc_ptr, arcs, rng, size, region, inside)
        for n in range(size):
            before[n] = x[region[n]]
        top = heat * random_unit(rng)
        for turn in range(blocks):
            now = top * (1.0 - (turn + 1.0) / blocks)
            count = grow_forest(arc_ptr, arcs, rng, region, size, inside, links, block, parent, frontier)
            solve_forest(
                var_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, rng, block, count, parent,
                now, theta, value, message, wanted,
            )  # fmt: skip
            for n in range(count):
                i = block[n]
                if wanted[i] != x[i]:
                    risen += local[var_ptr[i] + wanted[i]] - local[var_ptr[i] + x[i]]
                    move(
                        var_ptr, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, i, wanted[i]
                    )  # fmt: skip
        risen += judge(
            var_ptr, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, region, size, inside,
            before, links, frontier, wanted, least,
        )  # fmt: skip
        for n in range(size):
            inside[region[n]] = 0
    return risen


@fast_kernel
def recombine(
    var_ptr, unary, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, mate, before, inside,
    changed, region, queue, other, least,
):  # fmt: skip
    """Take over from another assignment `mate` [V] every part of the difference that improves; what the score gained.

    The result is at least as good as both. Scratch as in `judge`.
    """
    risen = 0.0
    for i in range(len(x)):
        region[i] = i
        before[i] = x[i]
        inside[i] = 1
    for i in range(len(x)):
        if mate[i] != x[i]:
            risen += local[var_ptr[i] + mate[i]] - local[var_ptr[i] + x[i]]
            move(var_ptr, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, i, mate[i])
    risen += judge(
        var_ptr, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, region, len(x), inside,
        before, changed, queue, other, least,
    )  # fmt: skip
    inside[:] = 0
    return risen
