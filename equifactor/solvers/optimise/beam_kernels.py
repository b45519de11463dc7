# mypy: ignore-errors
"""Beam search: the best states visited, and all their single-variable neighbours."""

import numpy as np

from equifactor.numerics.jit import fast_kernel
from equifactor.numerics.moves import move, rebuild_inline

IMPOSSIBLE = -1e308  # stands for ln 0, below every score
_REFRESH = 256  # moves after which rounding is removed from a state's sums


@fast_kernel
def beam_steps(
    var_ptr, unary, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, score, code, depth,
    expanded, cache, size, keys, pool, pool_score, pool_code, steps, possible, tie_zeros,
):  # fmt: skip
    """At most so many steps; the number done, and whether the cache still changed in the last one.

    A step examines every neighbour of the cached states and keeps the best len(cache) of all states visited, a state
    that came earlier before one of equal score. Neighbours of a state are examined once: those that were not kept then
    cannot be among the best later. With `tie_zeros` all scores below `possible` are equal.

    States lie in 2K slots: x, local, at, score, code [2K, ..] (the hash), depth (moves since the sums were renewed) and
    expanded (whether the neighbours were examined). cache [K] holds the slots of the best states, best first, and
    size [1] how many. keys [X] are random codes, one per variable state; the hash of an assignment is their exclusive
    or. pool [K, 3] (slot, variable or -1 for the slot itself, state), pool_score and pool_code are scratch.
    """
    width = len(cache)
    for step in range(steps):
        count = size[0]
        for n in range(count):
            k = cache[n]
            pool[n, 0] = k
            pool[n, 1] = -1
            pool_score[n] = IMPOSSIBLE if tie_zeros and score[k] < possible else score[k]
            pool_code[n] = code[k]
        changed = False
        for n in range(size[0]):
            k = cache[n]
            if expanded[k]:
                continue
            expanded[k] = True
            for i in range(len(var_ptr) - 1):
                first = var_ptr[i]
                here = first + x[k, i]
                rest = score[k] - local[k, here]
                for s in range(first, var_ptr[i + 1]):
                    value = rest + local[k, s]
                    if tie_zeros and value < possible:
                        value = IMPOSSIBLE
                    # Equal up to rounding is not better: the same state may be reached by several ways.
                    if s == here or (
                        count == width and value <= pool_score[count - 1] + 1e-12 * abs(pool_score[count - 1])
                    ):
                        continue
                    new_code = code[k] ^ keys[here] ^ keys[s]
                    known = False
                    for m in range(count):
                        known |= pool_code[m] == new_code
                    if known:
                        continue
                    changed = True
                    m = count if count < width else width - 1
                    count = min(count + 1, width)
                    while m > 0 and pool_score[m - 1] < value:
                        pool[m] = pool[m - 1]
                        pool_score[m] = pool_score[m - 1]
                        pool_code[m] = pool_code[m - 1]
                        m -= 1
                    pool[m, 0] = k
                    pool[m, 1] = i
                    pool[m, 2] = s - first
                    pool_score[m] = value
                    pool_code[m] = new_code
        if not changed:
            return step + 1, False
        # New states go to slots that hold no cached state of before: their parents may be among those dropped.
        taken = np.zeros(len(x), np.bool_)
        for n in range(size[0]):
            taken[cache[n]] = True
        free = 0
        for n in range(count):
            k, i = pool[n, 0], pool[n, 1]
            if i < 0:
                cache[n] = k
                continue
            while taken[free]:
                free += 1
            taken[free] = True
            b = pool[n, 2]
            x[free] = x[k]
            local[free] = local[k]
            at[free] = at[k]
            gain = local[k, var_ptr[i] + b] - local[k, var_ptr[i] + x[k, i]]
            score[free] = score[k] + gain
            code[free] = pool_code[n]
            depth[free] = depth[k] + 1
            expanded[free] = False
            move(
                var_ptr, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x[free], local[free], at[free], i,
                b,
            )  # fmt: skip
            if depth[free] >= _REFRESH or (score[k] < possible and score[free] >= possible):
                depth[free] = 0
                score[free] = rebuild_inline(
                    var_ptr, unary, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x[free], local[free],
                    at[free],
                )  # fmt: skip
            cache[n] = free
        size[0] = count
    return steps, True
