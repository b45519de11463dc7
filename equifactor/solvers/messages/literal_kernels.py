# mypy: ignore-errors
"""Parallel belief propagation on parity checks and clauses: one log ratio per message, many factors side by side.

Factors of one kind and arity k form a block of N; the messages of slot s of all of them are one stretch of memory, so
that every step of an update is a plain loop over factors that the compiler vectorises. Each factor is an automaton of
two states that reads its variables one after the other: (an even, an odd number of ones so far) or (no literal, a
literal has held so far). Its weights before and after a slot are sums of products of probabilities: nothing cancels, and
a message is right to rounding for any strength. Log ratios beyond `LIMIT` are held there for sums.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equifactor.numerics.fastmath import TINY, exp_, get, log_, put
from equifactor.numerics.jit import fast_kernel, inlined
from equifactor.typing import FloatArray, IntArray

LIMIT = 600.0  # a probability of e^-600 times a few others is still a normal number
PARITY, CLAUSE = 0, 1
KIND, ARITY, COUNT, EDGE, FACTOR = 0, 1, 2, 3, 4  # columns of Literals.blocks
_SCRATCH = 4096  # numbers in a row of scratch, which stays in the nearest cache


class Literals(NamedTuple):
    """The checks and clauses of a batch and their messages."""

    blocks: IntArray  # [B, 5] kind, arity, number of factors, first edge and first factor of each block
    lam: FloatArray  # [E] factor-to-variable log ratios ln m(1) - ln m(0), slot by slot within a block
    unary: FloatArray  # [V] log ratio of the unary factors
    var_of_edge: NDArray[np.int32]  # [E]
    graph_of_factor: NDArray[np.int32]  # [F]
    sign_of_edge: NDArray[np.int8]  # [E] 1 or -1: of a literal; all 1 for a parity
    number: FloatArray  # [F] 1 or -1 for an even or odd parity; the log value of a violated clause


@fast_kernel
def sweep_literals(count, literals, total, damping, is_max, change, check):
    """Several parallel updates of all messages.

    Args:
        count: number of sweeps.
        literals: factors and messages.
        total: [2, V] scratch for the sum into each variable, before and after.
        damping: share of the old log ratio that is kept.
        is_max: max-product instead of sum-product.
        change: [G] raised to the largest undamped movement in probability of the last sweep, when `check` is set.
        check: whether the change is wanted.
    """
    literals = Literals(*literals)
    blocks, lam, unary, var_of_edge = literals.blocks, literals.lam, literals.unary, literals.var_of_edge
    width = 1
    for b in range(len(blocks)):
        width = max(width, blocks[b, ARITY] * min(blocks[b, COUNT], max(1, _SCRATCH // blocks[b, ARITY])))
    rows = np.empty((4, width))
    now, after = total[0], total[1]
    after[:] = unary
    for e in range(len(lam)):
        i = get(var_of_edge, e)
        put(after, i, get(after, i) + get(lam, e))
    for n in range(count):
        now, after = after, now
        after[:] = unary
        want = check and n == count - 1
        for b in range(len(blocks)):
            lanes = max(1, _SCRATCH // blocks[b, ARITY])
            for start in range(0, blocks[b, COUNT], lanes):
                stop = min(start + lanes, blocks[b, COUNT])
                _update_lanes(literals, blocks[b], start, stop, now, after, rows, damping, is_max, change, want)


@fast_kernel
def _update_lanes(literals, block, start, stop, now, after, rows, damping, is_max, change, want):
    """Messages of factors number start to stop of a block: read, updated, written and added to the next sums."""
    lam, var_of_edge, sign_of_edge = literals.lam, literals.var_of_edge, literals.sign_of_edge
    arity, count = block[ARITY], block[COUNT]
    is_clause = block[KIND] == CLAUSE
    lanes = stop - start
    number = literals.number[block[FACTOR] + start : block[FACTOR] + stop]
    q = rows[0]
    for s in range(arity):
        first = block[EDGE] + s * count + start
        at = s * lanes
        for f in range(lanes):
            put(q, at + f, get(now, get(var_of_edge, first + f)) - get(lam, first + f))
        if is_clause:
            for f in range(lanes):
                put(q, at + f, get(q, at + f) * get(sign_of_edge, first + f))
    if is_max:
        if is_clause:
            _max_clauses(q, rows[1], rows[2], arity, lanes, number)
        else:
            _max_parities(q, rows[1], rows[2], arity, lanes, number)
    elif is_clause:
        _sum_clauses(q, rows[1], rows[2], rows[3], arity, lanes, number)
    else:
        _sum_parities(q, rows[1], rows[2], rows[3], arity, lanes, number)
    graph = literals.graph_of_factor
    for s in range(arity):
        first = block[EDGE] + s * count + start
        at = s * lanes
        if is_clause:
            for f in range(lanes):
                put(q, at + f, get(q, at + f) * get(sign_of_edge, first + f))
        if want:
            for f in range(lanes):
                moved = abs(_probability(get(q, at + f)) - _probability(get(lam, first + f)))
                put(rows[1], f, moved)
            for f in range(lanes):
                g = graph[block[FACTOR] + start + f]
                change[g] = max(change[g], get(rows[1], f))
        for f in range(lanes):
            new = get(q, at + f)
            gap = get(lam, first + f) - new
            put(lam, first + f, new + damping * (gap if abs(gap) > TINY else 0.0))
        for f in range(lanes):
            i = get(var_of_edge, first + f)
            put(after, i, get(after, i) + get(lam, first + f))


@inlined
def _probability(ratio):
    """The probability of state 1, from a log ratio."""
    small = exp_(max(-abs(ratio), -LIMIT))
    return (1.0 if ratio > 0.0 else small) / (1.0 + small)


# ---- sums -------------------------------------------------------------------------------------------------


@fast_kernel
def _sum_parities(q, one, even, odd, arity, lanes, number):
    """In place: from log ratios of what arrives to those of what is sent.

    one [k lanes] holds the probabilities of state 1; even and odd the weights before each slot.
    """
    for f in range(lanes):
        put(even, f, 1.0)
        put(odd, f, 0.0)
    for s in range(arity):
        at = s * lanes
        for f in range(at, at + lanes):
            ratio = get(q, f)
            small = exp_(max(-abs(ratio), -LIMIT))
            share = 1.0 / (1.0 + small)
            p1 = share if ratio > 0.0 else small * share
            put(one, f, p1)
            put(q, f, small * share if ratio > 0.0 else share)  # the probability of state 0
        if s + 1 < arity:
            for f in range(at, at + lanes):
                e, o, p0, p1 = get(even, f), get(odd, f), get(q, f), get(one, f)
                put(even, f + lanes, e * p0 + o * p1)
                put(odd, f + lanes, e * p1 + o * p0)
    # The weights behind each slot are kept in the place of the first slot's, which are known to be 1 and 0.
    for f in range(lanes):
        put(even, f, 1.0)
        put(odd, f, 0.0)
    for s in range(arity - 1, -1, -1):
        at = s * lanes
        for f in range(lanes):
            behind_even, behind_odd = get(even, f), get(odd, f)
            e = get(even, at + f) if s > 0 else 1.0
            o = get(odd, at + f) if s > 0 else 0.0
            p0, p1 = get(q, at + f), get(one, at + f)
            rest_even = e * behind_even + o * behind_odd
            rest_odd = e * behind_odd + o * behind_even
            put(q, at + f, get(number, f) * log_(rest_odd / rest_even))
            put(even, f, behind_even * p0 + behind_odd * p1)
            put(odd, f, behind_even * p1 + behind_odd * p0)


@fast_kernel
def _sum_clauses(q, true, none, some, arity, lanes, number):
    """In place, for log ratios of literals: none and some [k lanes] are the weights before each slot."""
    for f in range(lanes):
        put(none, f, 1.0)
        put(some, f, 0.0)
    for s in range(arity):
        at = s * lanes
        for f in range(at, at + lanes):
            ratio = get(q, f)
            small = exp_(max(-abs(ratio), -LIMIT))
            share = 1.0 / (1.0 + small)
            put(true, f, share if ratio > 0.0 else small * share)
            put(q, f, small * share if ratio > 0.0 else share)
        if s + 1 < arity:
            for f in range(at, at + lanes):
                n = get(none, f)
                put(none, f + lanes, n * get(q, f))
                put(some, f + lanes, get(some, f) + n * get(true, f))
    for f in range(lanes):
        put(none, f, 1.0)
        put(some, f, 0.0)
    for s in range(arity - 1, -1, -1):
        at = s * lanes
        for f in range(lanes):
            behind_none, behind_some = get(none, f), get(some, f)
            n = get(none, at + f) if s > 0 else 1.0
            held = get(some, at + f) if s > 0 else 0.0
            p_false, p_true = get(q, at + f), get(true, at + f)
            violated = exp_(min(max(get(number, f), -LIMIT), LIMIT)) if get(number, f) > -LIMIT else 0.0
            # Everything weighs 1 where this literal holds, the rest decides where it does not.
            put(q, at + f, -log_(max(held + n * behind_some + n * behind_none * violated, 1e-300)))
            put(none, f, behind_none * p_false)
            put(some, f, behind_some + behind_none * p_true)


# ---- maxima -----------------------------------------------------------------------------------------------


@fast_kernel
def _max_parities(q, least, second, arity, lanes, number):
    """In place: the smallest strength among the others, and the parity of their signs."""
    for f in range(lanes):
        put(least, f, np.inf)
        put(second, f, np.inf)
        put(least, lanes + f, get(number, f))  # with the product of signs: -1 where a check is odd
    for s in range(arity):
        at = s * lanes
        for f in range(lanes):
            ratio = get(q, at + f)
            size = abs(ratio)
            low = get(least, f)
            put(second, f, min(get(second, f), max(low, size)))
            put(least, f, min(low, size))
            sign = get(least, lanes + f)
            put(least, lanes + f, -sign if ratio > 0.0 else sign)
    for s in range(arity):
        at = s * lanes
        for f in range(lanes):
            ratio = get(q, at + f)
            size = abs(ratio)
            rest = get(second, f) if size == get(least, f) else get(least, f)
            sign = get(least, lanes + f)
            sign = -sign if ratio > 0.0 else sign
            # An even number of ones among the others asks for state 0.
            put(q, at + f, -sign * rest)


@fast_kernel
def _max_clauses(q, work, second, arity, lanes, number):
    """In place, for log ratios of literals: what the others reach with none, and with at least one, of them holding."""
    for f in range(lanes):
        put(work, f, -np.inf)  # the largest ratio
        put(second, f, -np.inf)  # the second largest
        put(work, lanes + f, 0.0)  # the sum of the positive ones
    for s in range(arity):
        at = s * lanes
        for f in range(lanes):
            ratio = get(q, at + f)
            top = get(work, f)
            put(second, f, max(get(second, f), min(top, ratio)))
            put(work, f, max(top, ratio))
            put(work, lanes + f, get(work, lanes + f) + max(ratio, 0.0))
    for s in range(arity):
        at = s * lanes
        for f in range(lanes):
            ratio = get(q, at + f)
            top = get(second, f) if ratio == get(work, f) else get(work, f)
            free = get(work, lanes + f) - max(ratio, 0.0) if top > 0.0 else 0.0
            held = free if top > 0.0 else top
            put(q, at + f, free - max(held, get(number, f)))


# ---- answers ----------------------------------------------------------------------------------------------


@fast_kernel
def literal_reductions(literals, sent, is_max):
    """[F] ln of the sum (or the maximum) over each factor times messages (1, e^ratio) with the ratios `sent` [E]."""
    literals = Literals(*literals)
    blocks, signs, number = literals.blocks, literals.sign_of_edge, literals.number
    reduced = np.empty(len(number))
    for b in range(len(blocks)):
        arity, count, is_clause = blocks[b, ARITY], blocks[b, COUNT], blocks[b, KIND] == CLAUSE
        for f in range(count):
            p = blocks[b, FACTOR] + f
            first, other, scale, base = 1.0, 0.0, 0.0, 0.0  # automaton, or the best so far in its two states
            if is_max:
                first, other = 0.0, -np.inf
            for s in range(arity):
                e = blocks[b, EDGE] + s * count + f
                ratio = sent[e] * (signs[e] if is_clause else 1)
                base += sent[e] if is_clause and signs[e] < 0 else 0.0  # a message (1, e^r) in terms of its literal
                if is_max:
                    if is_clause:
                        first, other = first, max(other + max(ratio, 0.0), first + ratio)
                    else:
                        first, other = max(first, other + ratio), max(other, first + ratio)
                    continue
                top = max(ratio, 0.0)
                p0, p1 = np.exp(-top), np.exp(ratio - top)
                if is_clause:
                    first, other = first * p0, other * (p0 + p1) + first * p1
                else:
                    first, other = first * p0 + other * p1, first * p1 + other * p0
                total = first + other
                first, other = first / total, other / total
                scale += top + np.log(total)
            if is_clause:
                if is_max:
                    reduced[p] = base + max(other, first + number[p])
                else:
                    reduced[p] = base + scale + np.log(other + first * np.exp(number[p]))
            elif is_max:
                reduced[p] = first if number[p] > 0 else other
            else:
                reduced[p] = scale + np.log(first if number[p] > 0 else other)
    return reduced
