# mypy: ignore-errors
"""Parallel belief propagation on parity checks and clauses: one log ratio per message, many factors side by side.

Factors of one kind and arity k form a block of N; the messages of slot s of all of them are one stretch of memory, so
that every step of an update is a plain loop over factors that the compiler vectorises. Each factor is an automaton of
two states that reads its variables one after the other: (an even, an odd number of ones so far) or (no literal, a
literal has held so far). Its weights before and after a slot are sums of products of probabilities: nothing cancels,
and a message is right to rounding as long as no log ratio is beyond `LIMIT`; a sweep of sums ends before one is.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equifactor.numerics.fastmath import TINY, exp_, get, log_, put
from equifactor.numerics.jit import fast_kernel, inlined, reordering_kernel
from equifactor.typing import FloatArray, IntArray

LIMIT = 600.0  # a probability of e^-600 times a few others is still a normal number
PARITY, CLAUSE = 0, 1
KIND, ARITY, COUNT, EDGE, FACTOR = 0, 1, 2, 3, 4  # columns of Literals.blocks
LANES = 16  # factors that are updated together: four vectors of four numbers
ROWS = 4  # rows of scratch per slot
SMALLEST = 1e-300  # what a weight that has vanished is taken for


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
        total: [2V] scratch for the sums into each variable, before and after, side by side: on large graphs the time
            goes into fetching them from memory, and so one fetch brings both.
        damping: share of the old log ratio that is kept.
        is_max: max-product instead of sum-product.
        change: [G] raised to the largest undamped movement in probability of the last sweep, when `check` is set.
        check: whether the change is wanted.

    Returns:
        the number of sweeps made: fewer where an incoming log ratio of the next one could be beyond `LIMIT`.
    """
    literals = Literals(*literals)
    blocks, lam, unary, var_of_edge = literals.blocks, literals.lam, literals.unary, literals.var_of_edge
    longest = 1
    for b in range(len(blocks)):
        longest = max(longest, blocks[b, ARITY])
    work = np.zeros((longest + 1) * ROWS * LANES)
    after = 0
    _fill(total, after, unary)
    for e in range(len(lam)):
        i = 2 * get(var_of_edge, e) + after
        put(total, i, get(total, i) + get(lam, e))
    for n in range(count):
        after = 1 - after
        if not is_max and _largest(total[1 - after :: 2]) + _largest(lam) > LIMIT:
            return n
        _fill(total, after, unary)
        want = check and n == count - 1
        for b in range(len(blocks)):
            _update_block(literals, blocks[b], total, after, work, damping, is_max, change, want)
    return count


@fast_kernel
def _fill(total, side, unary):
    """Begin one of the two sums of all variables."""
    for i in range(len(unary)):
        put(total, 2 * i + side, get(unary, i))


@reordering_kernel
def _largest(values):
    """The largest absolute value."""
    top = 0.0
    for n in range(len(values)):
        top = max(top, abs(values[n]))
    return top


@fast_kernel
def _update_block(literals, block, total, after, work, damping, is_max, change, want):
    """Messages of a block, LANES factors at a time: read, updated, written and added to the next sums."""
    lam, var_of_edge, sign_of_edge = literals.lam, literals.var_of_edge, literals.sign_of_edge
    number, graph_of_factor = literals.number, literals.graph_of_factor
    arity, count, edge, factor = block[ARITY], block[COUNT], block[EDGE], block[FACTOR]
    is_clause = block[KIND] == CLAUSE
    ends = arity * ROWS * LANES  # the row of what is known of each factor
    for start in range(0, count, LANES):
        lanes = min(LANES, count - start)
        for f in range(lanes):
            put(work, ends + f, get(number, factor + start + f))
        for s in range(arity):
            first, at = edge + s * count + start, s * ROWS * LANES
            for f in range(lanes):
                i = 2 * get(var_of_edge, first + f) + 1 - after
                put(work, at + f, get(total, i) - get(lam, first + f))
            if is_clause:
                for f in range(lanes):
                    put(work, at + f, get(work, at + f) * get(sign_of_edge, first + f))
        if is_max:
            if is_clause:
                _max_clauses(work, arity)
            else:
                _max_parities(work, arity)
        elif is_clause:
            _sum_clauses(work, arity)
        else:
            _sum_parities(work, arity)
        for s in range(arity):
            first, at = edge + s * count + start, s * ROWS * LANES
            if is_clause:
                for f in range(lanes):
                    put(work, at + f, get(work, at + f) * get(sign_of_edge, first + f))
            if want:
                for f in range(lanes):
                    g = get(graph_of_factor, factor + start + f)
                    moved = abs(_probability(get(work, at + f)) - _probability(get(lam, first + f)))
                    put(change, g, max(get(change, g), moved))
            if damping > 0.0:
                for f in range(lanes):
                    gap = get(lam, first + f) - get(work, at + f)
                    put(work, at + f, get(work, at + f) + damping * (gap if abs(gap) > TINY else 0.0))
            for f in range(lanes):
                new = get(work, at + f)
                put(lam, first + f, new)
                i = 2 * get(var_of_edge, first + f) + after
                put(total, i, get(total, i) + new)


@inlined
def _probability(ratio):
    """The probability of state 1, from a log ratio."""
    small = exp_(max(-abs(ratio), -LIMIT))
    return (1.0 if ratio > 0.0 else small) / (1.0 + small)


# All of these take LANES factors of one arity. Slot s has ROWS rows of LANES numbers in `work`: first the log ratio
# that arrives and that is replaced by the one to send, then what the method keeps. One array and constant distances are
# what lets the compiler see that the lanes do not touch each other.


@fast_kernel
def _sum_parities(work, arity):
    """The rows of a slot: ratio or probability of state 0, probability of state 1, weight of even and odd before it."""
    for f in range(LANES):
        put(work, 2 * LANES + f, 1.0)
        put(work, 3 * LANES + f, 0.0)
    for s in range(arity):
        at = s * ROWS * LANES
        for f in range(LANES):
            ratio = get(work, at + f)
            small = exp_(max(-abs(ratio), -LIMIT))
            large = 1.0 / (1.0 + small)
            small = small * large
            p0 = small if ratio > 0.0 else large
            p1 = large if ratio > 0.0 else small
            even, odd = get(work, at + 2 * LANES + f), get(work, at + 3 * LANES + f)
            put(work, at + f, p0)
            put(work, at + LANES + f, p1)
            put(work, at + 6 * LANES + f, even * p0 + odd * p1)
            put(work, at + 7 * LANES + f, even * p1 + odd * p0)
    end = arity * ROWS * LANES
    for f in range(LANES):
        put(work, end + 2 * LANES + f, 1.0)
        put(work, end + 3 * LANES + f, 0.0)
    for s in range(arity - 1, -1, -1):
        at = s * ROWS * LANES
        for f in range(LANES):
            p0, p1 = get(work, at + f), get(work, at + LANES + f)
            even, odd = get(work, at + 2 * LANES + f), get(work, at + 3 * LANES + f)
            after_even, after_odd = get(work, at + 6 * LANES + f), get(work, at + 7 * LANES + f)
            rest_even = even * after_even + odd * after_odd
            rest_odd = even * after_odd + odd * after_even
            put(work, at + f, log_(rest_odd / rest_even))
            # From here on this place holds the weights of what lies behind, which is what the slot before it needs.
            put(work, at + 2 * LANES + f, after_even * p0 + after_odd * p1)
            put(work, at + 3 * LANES + f, after_even * p1 + after_odd * p0)
    for s in range(arity):
        at = s * ROWS * LANES
        for f in range(LANES):
            put(work, at + f, get(work, at + f) * get(work, end + f))


@fast_kernel
def _sum_clauses(work, arity):
    """The rows of a slot: ratio or probability of false, probability of true, weight of none and of some before it."""
    for f in range(LANES):
        put(work, 2 * LANES + f, 1.0)
        put(work, 3 * LANES + f, 0.0)
    for s in range(arity):
        at = s * ROWS * LANES
        for f in range(LANES):
            ratio = get(work, at + f)
            small = exp_(max(-abs(ratio), -LIMIT))
            large = 1.0 / (1.0 + small)
            small = small * large
            false = small if ratio > 0.0 else large
            true = large if ratio > 0.0 else small
            none, some = get(work, at + 2 * LANES + f), get(work, at + 3 * LANES + f)
            put(work, at + f, false)
            put(work, at + LANES + f, true)
            put(work, at + 6 * LANES + f, none * false)
            put(work, at + 7 * LANES + f, some + none * true)
    end = arity * ROWS * LANES
    for f in range(LANES):
        violated = get(work, end + f)
        put(work, end + LANES + f, exp_(min(max(violated, -LIMIT), LIMIT)) if violated > -LIMIT else 0.0)
        put(work, end + 2 * LANES + f, 1.0)
        put(work, end + 3 * LANES + f, 0.0)
    for s in range(arity - 1, -1, -1):
        at = s * ROWS * LANES
        for f in range(LANES):
            false, true = get(work, at + f), get(work, at + LANES + f)
            none, some = get(work, at + 2 * LANES + f), get(work, at + 3 * LANES + f)
            none_after, some_after = get(work, at + 6 * LANES + f), get(work, at + 7 * LANES + f)
            # All weighs 1 where this literal holds; where it does not, the others decide.
            rest = some + none * some_after + none * none_after * get(work, end + LANES + f)
            put(work, at + f, -log_(max(rest, SMALLEST)))
            put(work, at + 2 * LANES + f, none_after * false)
            put(work, at + 3 * LANES + f, some_after + none_after * true)


@fast_kernel
def _max_parities(work, arity):
    """Kept behind the last slot: the two smallest strengths and the sign, -1 for an odd number of ones."""
    end = arity * ROWS * LANES
    for f in range(LANES):
        put(work, end + LANES + f, np.inf)
        put(work, end + 2 * LANES + f, np.inf)
        put(work, end + 3 * LANES + f, -get(work, end + f))
    for s in range(arity):
        at = s * ROWS * LANES
        for f in range(LANES):
            ratio = get(work, at + f)
            size, least = abs(ratio), get(work, end + LANES + f)
            put(work, end + 2 * LANES + f, min(get(work, end + 2 * LANES + f), max(least, size)))
            put(work, end + LANES + f, min(least, size))
            sign = get(work, end + 3 * LANES + f)
            put(work, end + 3 * LANES + f, -sign if ratio > 0.0 else sign)
    for s in range(arity):
        at = s * ROWS * LANES
        for f in range(LANES):
            ratio, least = get(work, at + f), get(work, end + LANES + f)
            rest = get(work, end + 2 * LANES + f) if abs(ratio) == least else least
            sign = get(work, end + 3 * LANES + f)
            put(work, at + f, rest * (-sign if ratio > 0.0 else sign))


@fast_kernel
def _max_clauses(work, arity):
    """Kept behind the last slot: the two largest ratios of literals and the sum of the positive ones."""
    end = arity * ROWS * LANES
    for f in range(LANES):
        put(work, end + LANES + f, -np.inf)
        put(work, end + 2 * LANES + f, -np.inf)
        put(work, end + 3 * LANES + f, 0.0)
    for s in range(arity):
        at = s * ROWS * LANES
        for f in range(LANES):
            ratio, top = get(work, at + f), get(work, end + LANES + f)
            put(work, end + 2 * LANES + f, max(get(work, end + 2 * LANES + f), min(top, ratio)))
            put(work, end + LANES + f, max(top, ratio))
            put(work, end + 3 * LANES + f, get(work, end + 3 * LANES + f) + max(ratio, 0.0))
    for s in range(arity):
        at = s * ROWS * LANES
        for f in range(LANES):
            ratio, top = get(work, at + f), get(work, end + LANES + f)
            others = get(work, end + 2 * LANES + f) if ratio == top else top
            free = get(work, end + 3 * LANES + f) - max(ratio, 0.0) if others > 0.0 else 0.0
            held = free if others > 0.0 else others
            put(work, at + f, free - max(held, get(work, end + f)))
