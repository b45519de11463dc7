# mypy: ignore-errors
"""Compiled loops over the edges and the variables of a large model. They release the GIL, so threads share the work.

x is the log odds of a variable in quanta, clamped; u and v are the log odds of the two ends of an edge without the
message of that edge.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.extending import intrinsic

from equifactor.kernels.fastmath import MIN_EXP, exp_, get, put
from equifactor.kernels.jit import fast_kernel, inlined, kernel
from equifactor.kernels.randomness import random_bits

SPILL = 2**30  # A sum that reaches this is moved out of its 32 bits: the next message cannot make it overflow.

# How many edges before its use the memory of a variable is requested. On a graph of 8 million variables an edge takes
# 32 ns without requests, and 15, 10, 8.4 and 8.3 ns with requests 8, 16, 32 and 64 edges before.
AHEAD = 32


@intrinsic
def prefetch(typingctx, array, index):
    """Request the memory of array[index], which will be changed soon."""

    def codegen(context, builder, signature, args):
        a = context.make_array(signature.args[0])(context, builder, args[0])
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        request = builder.module.declare_intrinsic(
            "llvm.prefetch", [pointer], ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        )
        place = builder.bitcast(builder.gep(a.data, [args[1]], inbounds=True), pointer)
        builder.call(request, [place, number(1), number(3), number(1)])  # for writing, into all caches, data
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


@fast_kernel
def update_edges(
    start, stop, first, second, step, table, to_first, to_second, nodes, lookup, size, shift, half, keep, spilled
):
    """Update the two messages of the edges start to stop - 1, and add them to the sums of their variables.

    Args:
        start: the first edge.
        stop: the edge after the last one.
        first: edge e joins first[e * step] and second[e * step].
        second: see `first`.
        step: 2 if the two arrays lie within each other, otherwise 1.
        table: [E] the number of the table of each edge, or empty if there is one table.
        to_first: [E] the messages, replaced.
        to_second: see `to_first`.
        nodes: [2V] of this thread: x and the sum of each variable lie side by side, which halves the cache misses.
        lookup: [T * 2 * size] see `MessageScale`.
        size: the entries of one row of `lookup`.
        shift: see `MessageScale`.
        half: see `MessageScale`.
        keep: the share of the old message that is kept, in 1/1024.
        spilled: [n, 2] filled with places in `nodes` and sums that would become too large for 32 bits.

    Returns:
        The number of rows of `spilled` that are filled, and the next edge: `stop`, unless no row is left.
    """
    many, rounding, mask, last = len(table) > 0, (1 << shift) >> 1, (1 << shift) - 1, 2 * half - 1
    row, count = 0, 0
    for e in range(start, stop):
        ahead = min(e + AHEAD, stop - 1) * step
        prefetch(nodes, 2 * np.int64(get(first, ahead)))
        prefetch(nodes, 2 * np.int64(get(second, ahead)))
        i, j = 2 * np.int64(get(first, e * step)), 2 * np.int64(get(second, e * step))
        old_first, old_second = np.int64(get(to_first, e)), np.int64(get(to_second, e))
        if many:
            row = 2 * size * np.int64(get(table, e))
        u = min(max(get(nodes, i) - old_first + half, 0), last)
        v = min(max(get(nodes, j) - old_second + half, 0), last)
        n = row + (u >> shift)
        low = np.int64(get(lookup, n))
        new_second = low + (((get(lookup, n + 1) - low) * (u & mask) + rounding) >> shift)
        n = row + size + (v >> shift)
        low = np.int64(get(lookup, n))
        new_first = low + (((get(lookup, n + 1) - low) * (v & mask) + rounding) >> shift)
        if keep:
            new_second += ((old_second - new_second) * keep + 512) >> 10
            new_first += ((old_first - new_first) * keep + 512) >> 10
        to_second[e] = new_second
        to_first[e] = new_first
        sum_first, sum_second = get(nodes, i + 1) + new_first, get(nodes, j + 1) + new_second
        if abs(sum_first) >= SPILL:
            spilled[count, 0], spilled[count, 1] = i + 1, sum_first
            sum_first = 0
            count += 1
        if abs(sum_second) >= SPILL:
            spilled[count, 0], spilled[count, 1] = j + 1, sum_second
            sum_second = 0
            count += 1
        put(nodes, i + 1, np.int32(sum_first))
        put(nodes, j + 1, np.int32(sum_second))
        if count + 2 > len(spilled):
            return count, e + 1
    return count, stop


@inlined
def _log_sum(a, b, lookup, shift, last):
    """Return ln(e^a + e^b), where a, b and the result are whole numbers of fine units."""
    high = max(a, b)
    gap = min(high - min(a, b), last)
    n = gap >> shift
    low = np.int64(get(lookup, n))
    rise = np.int64(get(lookup, n + 1)) - low
    return high + low + ((rise * (gap & ((1 << shift) - 1)) + ((1 << shift) >> 1)) >> shift)


@inlined
def _send(sender, logs, row, states, lookup, shift, last, fine, e, count, to, sums, at, keep, spilled, filled):
    """Update the message to one end of edge e, add it to `sums` from place `at` on, and return the rows of `spilled`.

    `sender` [K] has the log weights of the states of the other end without this edge; the table begins at `row`.
    """
    base, rounding = np.int64(0), (1 << fine) >> 1
    for s in range(states):
        total = np.int64(get(logs, row + s)) + get(sender, 0)
        for t in range(1, states):
            total = _log_sum(total, np.int64(get(logs, row + t * states + s)) + get(sender, t), lookup, shift, last)
        if s == 0:
            base = total
        else:
            place = (s - 1) * count + e
            new = (total - base + rounding) >> fine
            if keep:
                new += ((np.int64(get(to, place)) - new) * keep + 512) >> 10
            to[place] = new
            added = get(sums, at + s - 1) + new
            if abs(added) >= SPILL:
                spilled[filled, 0], spilled[filled, 1] = at + s - 1, added
                added = 0
                filled += 1
            put(sums, at + s - 1, np.int32(added))
    return filled


@fast_kernel
def update_edges_of_states(
    start, stop, first, second, step, table, to_first, to_second, nodes, lookup, logs, states, shift, last, fine, keep,
    senders, spilled,
):  # fmt: skip
    """Update the messages of the edges start to stop - 1 between variables with K > 2 states, as `update_edges`.

    Args:
        start: the first edge.
        stop: the edge after the last one.
        first: see `update_edges`.
        second: see `update_edges`.
        step: see `update_edges`.
        table: see `update_edges`.
        to_first: [(K - 1) E] the messages, replaced; the messages to one state lie side by side.
        to_second: see `to_first`.
        nodes: [V (2K - 1)] of this thread: the log weights of the K states of each variable, and K - 1 sums.
        lookup: see `MessageScale`.
        logs: [T * 2 * K * K] see `MessageScale`.
        states: K.
        shift: see `MessageScale`.
        last: the largest difference in `lookup`.
        fine: see `MessageScale`.
        keep: the share of the old message that is kept, in 1/1024.
        senders: [2, K] scratch.
        spilled: [n, 2] filled with places in `nodes` and sums that would become too large for 32 bits.

    Returns:
        As `update_edges`.
    """
    wide, square, many, count = 2 * states - 1, states * states, len(table) > 0, len(to_first) // (states - 1)
    row, filled = 0, 0
    one, two = senders[0], senders[1]
    for e in range(start, stop):
        ahead = min(e + AHEAD, stop - 1) * step
        prefetch(nodes, wide * np.int64(get(first, ahead)))
        prefetch(nodes, wide * np.int64(get(second, ahead)))
        i, j = wide * np.int64(get(first, e * step)), wide * np.int64(get(second, e * step))
        if many:
            row = 2 * square * np.int64(get(table, e))
        put(one, 0, np.int64(get(nodes, i)) << fine)
        put(two, 0, np.int64(get(nodes, j)) << fine)
        for t in range(1, states):
            place = (t - 1) * count + e
            put(one, t, np.int64(get(nodes, i + t) - get(to_first, place)) << fine)
            put(two, t, np.int64(get(nodes, j + t) - get(to_second, place)) << fine)
        filled = _send(
            one, logs, row, states, lookup, shift, last, fine, e, count, to_second, nodes, j + states, keep, spilled,
            filled,
        )  # fmt: skip
        filled = _send(
            two, logs, row + square, states, lookup, shift, last, fine, e, count, to_first, nodes, i + states, keep,
            spilled, filled,
        )  # fmt: skip
        if filled + 2 * states > len(spilled):
            return filled, e + 1
    return filled, stop


@kernel
def add_sums(start, stop, nodes, totals, held):
    """Add the sums of all threads to the totals of the variables start to stop - 1.

    Args:
        start: the first variable.
        stop: the variable after the last one.
        nodes: [threads, V, held + S] the sums follow `held` other numbers of each variable.
        totals: [V, S] the sums are added.
        held: see `nodes`.
    """
    for k in range(len(nodes)):
        for i in range(start, stop):
            for s in range(totals.shape[1]):
                totals[i, s] += nodes[k, i, held + s]


@fast_kernel
def update_variables(start, stop, prior, totals, observed, bound, quantum, nodes, log_odds):
    """Set the log odds of the variables start to stop - 1, set their sums to 0, and return the largest change.

    Args:
        start: the first variable.
        stop: the variable after the last one.
        prior: [V] the log odds of the priors in quanta; `observed` or its negative if the state is known.
        totals: [V] the sums of messages, set to 0.
        observed: see `prior`.
        bound: x is clamped to this.
        quantum: nats.
        nodes: [threads, 2V] x, the clamped log odds in quanta, is replaced, and the sums are set to 0.
        log_odds: [V] replaced by the log odds in nats.

    Returns:
        The largest change of a probability.
    """
    largest = 0.0
    for i in range(start, stop):
        p = prior[i]
        known = p == observed or p == -observed
        total = np.int64(p) + (0 if known else totals[i])
        totals[i] = 0
        for k in range(len(nodes)):
            nodes[k, 2 * i] = min(max(total, -bound), bound)
            nodes[k, 2 * i + 1] = 0
        before, after = np.float64(log_odds[i]), np.float64(np.float32(total * quantum))
        if not known:
            log_odds[i] = after
            if abs(after - before) > 4.0 * largest:  # The probability changes by at most a quarter of this.
                largest = max(largest, abs(_probability(after) - _probability(before)))
    return largest


@fast_kernel
def update_variables_of_states(start, stop, prior, totals, impossible, bound, quantum, nodes, weights, work):
    """Set the log weights of the variables start to stop - 1, set their sums to 0, and return the largest change.

    Args:
        start: the first variable.
        stop: the variable after the last one.
        prior: [V, K] the log weights of the priors in quanta; `impossible` for a state of probability 0.
        totals: [V, K - 1] the sums of messages, set to 0.
        impossible: see `prior`.
        bound: log weights in `nodes` are clamped to this.
        quantum: nats.
        nodes: [threads, V, 2K - 1] the clamped log weights in quanta are replaced, and the sums are set to 0.
        weights: [V, K] replaced by the log weights in nats, relative to the largest.
        work: [2, K] scratch.

    Returns:
        The largest change of a probability.
    """
    largest, states = 0.0, prior.shape[1]
    for i in range(start, stop):
        top = np.int64(impossible)
        for s in range(states):
            if prior[i, s] != impossible:
                top = max(top, np.int64(prior[i, s]) + (totals[i, s - 1] if s else 0))
        gap = 0.0
        for s in range(states):
            possible = prior[i, s] != impossible
            total = np.int64(prior[i, s]) + (totals[i, s - 1] if s else 0) - top if possible else np.int64(-bound)
            clamped = max(total, -bound)
            for k in range(len(nodes)):
                nodes[k, i, s] = clamped
                if s:
                    nodes[k, i, states + s - 1] = 0
            work[0, s], work[1, s] = MIN_EXP, MIN_EXP
            if possible:
                work[0, s], work[1, s] = weights[i, s], np.float32(total * quantum)
                weights[i, s] = work[1, s]
                gap = max(gap, abs(work[0, s] - work[1, s]))
        for s in range(1, states):
            totals[i, s - 1] = 0
        if gap > 2.0 * largest:  # No probability changes by more than half of this.
            for n in range(2):
                total_weight = 0.0
                for s in range(states):
                    work[n, s] = exp_(max(work[n, s], MIN_EXP))
                    total_weight += work[n, s]
                for s in range(states):
                    work[n, s] /= total_weight
            for s in range(states):
                largest = max(largest, abs(work[0, s] - work[1, s]))
    return largest


@fast_kernel
def odds_of_states(start, stop, weights, odds):
    """Write odds [V, K]: ln P(s)/(1 - P(s)) of each state from log weights [V, K], of which the largest is 0."""
    states = weights.shape[1]
    for i in range(start, stop):
        for s in range(states):
            top = -np.inf  # The largest weight of the other states.
            for t in range(states):
                if t != s:
                    top = max(top, np.float64(weights[i, t]))
            rest = 0.0
            for t in range(states):
                if t != s:
                    rest += exp_(max(weights[i, t] - top, MIN_EXP))
            odds[i, s] = np.inf if top == -np.inf else weights[i, s] - top - math.log(rest)


@inlined
def _probability(log_odds):
    """Return the probability of state 1."""
    small = exp_(max(-abs(log_odds), MIN_EXP))
    return (1.0 if log_odds > 0.0 else small) / (1.0 + small)


@kernel
def edge_range(start, stop, first, second, step):
    """Return the smallest and largest number of a variable, and the first edge of a variable to itself or -1."""
    low, high, loop = first[start * step], first[start * step], -1
    for e in range(start, stop):
        i, j = first[e * step], second[e * step]
        low, high = min(low, i, j), max(high, i, j)
        if i == j and loop < 0:
            loop = e
    return low, high, loop


@kernel
def draw_rmat(edges, scale, rng, a, ab, abc):
    """Fill edges [n, 2] with edges of an R-MAT graph of 2^scale variables, none of them from a variable to itself.

    Args:
        edges: replaced.
        scale: every edge falls `scale` times into one of four quadrants.
        rng: [1] the state of the generator. A draw decides four levels, with 16 bits each.
        a: the probability of the first quadrant times 65536.
        ab: the same of the first two quadrants.
        abc: the same of the first three quadrants.
    """
    for e in range(len(edges)):
        i, j = 0, 0
        while i == j:
            i, j, bits = 0, 0, np.uint64(0)
            for level in range(scale):
                if level % 4 == 0:
                    bits = random_bits(rng)
                u = np.int64(bits & np.uint64(0xFFFF))
                bits >>= np.uint64(16)
                i = 2 * i + (u >= ab)
                j = 2 * j + ((a <= u < ab) or u >= abc)
        edges[e, 0], edges[e, 1] = i, j
