# mypy: ignore-errors
"""Parallel belief propagation on binary pairwise models: one number per message; no zeros.

A message is its log ratio `lam = ln m(1) - ln m(0)`. Messages of all factors lie side by side (slot 0, then slot 1),
so the parts of the update are plain loops over contiguous memory that the compiler vectorises: less than 6 ns per
message on one 2.8 GHz core, a third of what the general kernel takes.
"""

import numpy as np

from equifactor.numerics.fastmath import MIN_EXP, TINY, exp_, get, log_, put
from equifactor.numerics.jit import fast_kernel, inlined

CHUNK = 512  # factors: the scratch for so many stays in the nearest cache


@fast_kernel
def sweep_binary(count, lam, total, unary, var_of_edge, tables, damping, is_max, change, graph_of_edge, check):
    """So many parallel updates of all messages.

    A sweep goes through memory once, chunk by chunk: what one factor needs is read, and its messages are written and
    added to the sums of the next sweep, while it is near.

    Args:
        count: number of sweeps.
        lam: [2F] factor-to-variable log ratios, slot 0 of every factor, then slot 1; updated in place.
        total: [2, V] scratch for the sum into each variable, before and after.
        unary: [V] log ratio of the unary factors.
        var_of_edge: [2F] 32-bit.
        tables: [4, F] entries 00, 01, 10, 11: in the log domain for max, linear for sum.
        damping: share of the old log ratio that is kept.
        is_max: max-product instead of sum-product.
        change: [G] raised to the largest undamped movement in probability of the last sweep, when `check` is set.
        graph_of_edge: [2F].
        check: whether the change is wanted; it costs as much as the update.
    """
    num_factors = len(lam) // 2
    now, after = total[0], total[1]
    after[:] = unary
    _add_up(lam, var_of_edge, 0, num_factors, after)
    scratch = np.empty((2, CHUNK))
    for n in range(count):
        now, after = after, now
        after[:] = unary
        for start in range(0, num_factors, CHUNK):
            stop = min(start + CHUNK, num_factors)
            t00, t01, t10, t11 = (
                tables[0, start:stop], tables[1, start:stop], tables[2, start:stop], tables[3, start:stop]
            )  # fmt: skip
            for slot in range(2):
                # The message from slot s arrives at the other one. From slot 0, the table is read transposed.
                sent = scratch[1 - slot]
                _receive(lam, slot * num_factors + start, var_of_edge, now, sent[: stop - start])
                if is_max:
                    _max_ratios(sent, t00, t10 if slot == 0 else t01, t01 if slot == 0 else t10, t11)
                else:
                    _sum_ratios(sent, t00, t10 if slot == 0 else t01, t01 if slot == 0 else t10, t11)
            for slot in range(2):
                first = slot * num_factors + start
                new = scratch[slot, : stop - start]
                if check and n == count - 1:
                    for f in range(len(new)):
                        g = get(graph_of_edge, first + f)
                        moved = abs(probability(new[f]) - probability(get(lam, first + f)))
                        put(change, g, max(get(change, g), moved))
                for f in range(len(new)):
                    gap = get(lam, first + f) - new[f]
                    put(lam, first + f, new[f] + damping * (gap if abs(gap) > TINY else 0.0))
            _add_up(lam, var_of_edge, start, stop, after)


@inlined
def _add_up(lam, var_of_edge, start, stop, total):
    """Add the messages of some factors to the sums of their variables, in an order that no batch or chunk changes."""
    num_factors = len(lam) // 2
    for f in range(start, stop):
        i, j = get(var_of_edge, f), get(var_of_edge, f + num_factors)
        put(total, i, get(total, i) + get(lam, f))
        put(total, j, get(total, j) + get(lam, f + num_factors))


@inlined
def _receive(lam, first, var_of_edge, total, q):
    """Variable-to-factor log ratios of one slot of a chunk of factors."""
    for f in range(len(q)):
        q[f] = get(total, get(var_of_edge, first + f)) - get(lam, first + f)


@fast_kernel
def _sum_ratios(lam, t00, t01, t10, t11):
    """In place: ln (t10 q0 + t11 q1) / (t00 q0 + t01 q1), q the incoming message scaled to a largest entry of 1."""
    for f in range(len(t00)):
        ratio = lam[f]
        small = exp_(max(-abs(ratio), MIN_EXP))
        q0 = small if ratio > 0.0 else 1.0
        q1 = 1.0 if ratio > 0.0 else small
        lam[f] = log_((t10[f] * q0 + t11[f] * q1) / (t00[f] * q0 + t01[f] * q1))


@fast_kernel
def _max_ratios(lam, t00, t01, t10, t11):
    for f in range(len(t00)):
        ratio = lam[f]
        q1 = min(ratio, 0.0)  # ln of the incoming message scaled to a largest entry of 1: infinity is welcome
        q0 = min(-ratio, 0.0)
        lam[f] = max(t10[f] + q0, t11[f] + q1) - max(t00[f] + q0, t01[f] + q1)


@inlined
def probability(ratio):
    """Of state 1, from a log ratio."""
    small = exp_(max(-abs(ratio), MIN_EXP))
    return (1.0 if ratio > 0.0 else small) / (1.0 + small)
