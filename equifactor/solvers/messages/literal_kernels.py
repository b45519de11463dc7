# mypy: ignore-errors
"""Parallel belief propagation on parity checks and clauses: one log ratio per message, many factors side by side.

Factors of one kind and arity k form a block, which is cut into strips of `LANES` factors. The messages of slot s of a
strip are one stretch of memory. So every step of an update is a plain loop over factors that the compiler vectorises,
and a sweep reads messages from first to last. Each factor is an automaton of two states that reads its variables one
after the other. The states of a parity are an even and an odd number of ones so far; those of a clause are whether a
literal has held so far. The weights before and after a slot are sums of products of probabilities, so nothing cancels.
A message is accurate to rounding as long as no log ratio exceeds `LIMIT`; sweeps of sums stop before one does.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equifactor.base.typing import FloatArray, IntArray
from equifactor.factors.kind_numbers import CLAUSE
from equifactor.kernels.fastmath import TINY, bits_of, exp_, from_bits, get, log_, log_ratio_, put
from equifactor.kernels.jit import fast_kernel, inlined, reordering_kernel

LIMIT = 600.0  # The largest log ratio, in nats: e^-600 times a few other probabilities is a normal number.
KIND, ARITY, COUNT, EDGE, FACTOR = 0, 1, 2, 3, 4  # columns of Literals.blocks
PART = 32768  # Edges whose variables are numbered together: their sums fill half a megabyte.
LANES = 16  # Factors that are updated together: four vectors of four numbers.
ROWS = 4  # rows of scratch per slot
SHORT = 500  # Up to this arity a product of sums between 1 and 2 is a normal number.
SIGN = np.int64(-(1 << 63))  # The sign bit of a number.
SMALLEST = 1e-300  # Replaces a weight that has vanished.


class Literals(NamedTuple):
    """The checks and clauses of a batch and their messages."""

    blocks: IntArray  # [B, 5] kind, arity, number of factors, first edge and first factor of each block
    lam: FloatArray  # [E] factor-to-variable log ratios ln m(1) - ln m(0), slot by slot within a strip
    unary: FloatArray  # [V] log ratio of the unary factors
    reach: FloatArray  # [3] largest size of a unary ratio, largest degree, bound of a sum and a message together
    begun: IntArray  # [P] number of variables whose first edge lies in a part of `PART` edges or before it
    place_of_edge: NDArray[np.int32]  # [E] place of the sums of its variable: twice its number
    graph_of_factor: NDArray[np.int32]  # [F]
    sign_of_edge: NDArray[np.int8]  # [E] 1 or -1: of a literal; all 1 for a parity
    number: FloatArray  # [F] 1 or -1 for an even or odd parity; the log value of a violated clause


@fast_kernel
def sweep_literals(count, literals, total, side, damping, is_max, change, check):
    """Make several parallel updates of all messages.

    Args:
        count: number of sweeps.
        literals: factors and messages.
        total: [2V] the sums into each variable, before and after a sweep, side by side, so that one fetch from memory
            brings both. On large graphs these fetches take most of the time.
        side: 0 or 1: which of the two sums are those of the present messages.
        damping: share of the old log ratio that is kept.
        is_max: max-product instead of sum-product.
        change: [G] raised to the largest undamped movement in probability of the last sweep, when `check` is set.
        check: whether to measure the change.

    Returns:
        the number of sweeps made: fewer if an incoming log ratio of the next sweep could exceed `LIMIT`.
    """
    literals = Literals(*literals)
    blocks, lam = literals.blocks, literals.lam
    longest = 1
    for b in range(len(blocks)):
        longest = max(longest, blocks[b, ARITY])
    work = np.zeros((longest + 1) * ROWS * LANES)
    top = np.zeros(LANES)
    reach = literals.reach
    for n in range(count):
        before, after = total[side:], total[1 - side :]
        if not is_max and reach[2] > LIMIT and _largest(before[::2]) + _largest(lam) > LIMIT:
            return n
        want = check and n == count - 1
        top[:] = 0.0
        filled = 0
        for b in range(len(blocks)):
            filled = _update_block(literals, blocks[b], before, after, filled, work, damping, is_max, change, want, top)
        side = 1 - side
        reach[2] = reach[0] + (reach[1] + 1.0) * top.max()
    return count


@reordering_kernel
def _largest(values):
    """Return the largest absolute value."""
    top = 0.0
    for n in range(len(values)):
        top = max(top, abs(values[n]))
    return top


@fast_kernel
def _update_block(literals, block, before, after, filled, work, damping, is_max, change, want, top):
    """Update the messages of a block, LANES factors at a time: read, update, write and add them to the next sums."""
    lam, place_of_edge, sign_of_edge = literals.lam, literals.place_of_edge, literals.sign_of_edge
    unary, begun = literals.unary, literals.begun
    number, graph_of_factor = literals.number, literals.graph_of_factor
    arity, count, edge, factor = block[ARITY], block[COUNT], block[EDGE], block[FACTOR]
    is_clause = block[KIND] == CLAUSE
    ends = arity * ROWS * LANES  # the row of the `number` of each factor
    for start in range(0, count, LANES):
        lanes = min(LANES, count - start)
        base = edge + start * arity
        for f in range(lanes):
            put(work, ends + f, get(number, factor + start + f))
        until = get(begun, max(base + arity * lanes - 1, 0) // PART)
        for i in range(filled, until):
            put(after, 2 * i, get(unary, i))
        filled = max(filled, until)
        if lanes == LANES:  # loops of a known length have no remainders
            for s in range(arity):
                _read(work, s * ROWS * LANES, before, lam, place_of_edge, base + s * LANES, LANES)
        else:
            for s in range(arity):
                _read(work, s * ROWS * LANES, before, lam, place_of_edge, base + s * lanes, lanes)
        if is_clause:
            _turn(work, arity, sign_of_edge, base, lanes)
            if is_max:
                _max_clauses(work, arity)
            else:
                _sum_clauses(work, arity)
            _turn(work, arity, sign_of_edge, base, lanes)
        elif is_max:
            _max_parities(work, arity)
        else:
            _sum_parities(work, arity)
        if want:
            for s in range(arity):
                first, at = base + s * lanes, s * ROWS * LANES
                for f in range(lanes):
                    g = get(graph_of_factor, factor + start + f)
                    moved = abs(_probability(get(work, at + f)) - _probability(get(lam, first + f)))
                    put(change, g, max(get(change, g), moved))
        if damping > 0.0:
            for s in range(arity):
                first, at = base + s * lanes, s * ROWS * LANES
                for f in range(lanes):
                    gap = get(lam, first + f) - get(work, at + f)
                    put(work, at + f, get(work, at + f) + damping * (gap if abs(gap) > TINY else 0.0))
        if not is_max:
            for s in range(arity):
                for f in range(lanes):
                    put(top, f, max(get(top, f), abs(get(work, s * ROWS * LANES + f))))
        if lanes == LANES:
            for s in range(arity):
                _write(work, s * ROWS * LANES, after, lam, place_of_edge, base + s * LANES, LANES)
        else:
            for s in range(arity):
                _write(work, s * ROWS * LANES, after, lam, place_of_edge, base + s * lanes, lanes)
    return filled


@inlined
def _read(work, at, before, lam, place_of_edge, first, lanes):
    """Read the log ratios that arrive at one slot of some factors."""
    for f in range(lanes):
        put(work, at + f, get(before, get(place_of_edge, first + f)) - get(lam, first + f))


@inlined
def _write(work, at, after, lam, place_of_edge, first, lanes):
    """Store the log ratios that one slot of some factors sends, and add them to the sums."""
    for f in range(lanes):
        put(lam, first + f, get(work, at + f))
    for f in range(lanes):
        i = get(place_of_edge, first + f)
        put(after, i, get(after, i) + get(work, at + f))


@fast_kernel
def _turn(work, arity, sign_of_edge, base, lanes):
    """Turn ratios of variables into those of literals, or back."""
    for s in range(arity):
        first, at = base + s * lanes, s * ROWS * LANES
        for f in range(lanes):
            put(work, at + f, get(work, at + f) * get(sign_of_edge, first + f))


@fast_kernel
def signatures(var_of_edge, num_parts, key):
    """Write the parts of the order of edges in which each variable occurs first as one number.

    Args:
        var_of_edge: [E].
        num_parts: number P of parts of `PART` edges each.
        key: [V] zeros; becomes the parts of the first three edges of each variable, as digits to base P + 1.
    """
    base = num_parts + 1
    for e in range(len(var_of_edge)):
        i = var_of_edge[e]
        if key[i] < base * base:
            key[i] = key[i] * base + e // PART + 1
    for i in range(len(key)):
        while 0 < key[i] < base * base:
            key[i] *= base


@inlined
def _probability(ratio):
    """Return the probability of state 1, from a log ratio."""
    small = exp_(max(-abs(ratio), -LIMIT))
    return (1.0 if ratio > 0.0 else small) / (1.0 + small)


# The functions below take LANES factors of one arity. Slot s has ROWS rows of LANES numbers in `work`. The first row is
# the log ratio that arrives, which is replaced by the one to send. The other rows are kept by the function. One array
# with constant distances lets the compiler see that the lanes do not overlap.


@fast_kernel
def _sum_parities(work, arity):
    """Update parities; rows of a slot: ratio or weight of state 0, weight of state 1, of even and of odd before it.

    The larger weight of a variable is 1, instead of the sum of both: only the ratio of even to odd counts. Weights are
    divided by their sum only if a product of many could overflow.
    """
    end = arity * ROWS * LANES
    for f in range(LANES):
        even = 0.5 + 0.5 * get(work, end + f)  # an odd check has read a one already
        put(work, 2 * LANES + f, even)
        put(work, 3 * LANES + f, 1.0 - even)
    for s in range(arity):
        at = s * ROWS * LANES
        for f in range(LANES):
            ratio = get(work, at + f)
            small = exp_(max(-abs(ratio), -LIMIT))
            p0 = small if ratio > 0.0 else 1.0
            p1 = 1.0 if ratio > 0.0 else small
            even, odd = get(work, at + 2 * LANES + f), get(work, at + 3 * LANES + f)
            put(work, at + f, p0)
            put(work, at + LANES + f, p1)
            put(work, at + 6 * LANES + f, even * p0 + odd * p1)
            put(work, at + 7 * LANES + f, even * p1 + odd * p0)
        if arity > SHORT:
            _normalise(work, at + 6 * LANES)
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
            put(work, at + f, log_ratio_(rest_odd, rest_even))
            # From here on these rows hold the weights of the slots behind, which the slot before needs.
            put(work, at + 2 * LANES + f, after_even * p0 + after_odd * p1)
            put(work, at + 3 * LANES + f, after_even * p1 + after_odd * p0)
        if arity > SHORT:
            _normalise(work, at + 2 * LANES)


@fast_kernel
def _normalise(work, at):
    """Scale two rows to a sum of 1."""
    for f in range(LANES):
        scale = 1.0 / (get(work, at + f) + get(work, at + LANES + f))
        put(work, at + f, get(work, at + f) * scale)
        put(work, at + LANES + f, get(work, at + LANES + f) * scale)


@fast_kernel
def _sum_clauses(work, arity):
    """Update clauses; rows of a slot: ratio or probability of false, of true, weight of none and some before it."""
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
            # The total weight is 1 if this literal holds. If it fails, the other literals decide.
            rest = some + none * some_after + none * none_after * get(work, end + LANES + f)
            put(work, at + f, -log_(max(rest, SMALLEST)))
            put(work, at + 2 * LANES + f, none_after * false)
            put(work, at + 3 * LANES + f, some_after + none_after * true)


@fast_kernel
def _max_parities(work, arity):
    """Update parities; the rows of a slot: ratio, the two smallest sizes before it, a number with the sign before it.

    On the way back the values of all slots are passed from slot to slot. If they were read behind the last slot, the
    compiler could not see that the lanes do not overlap.
    """
    end = arity * ROWS * LANES
    for f in range(LANES):
        put(work, LANES + f, np.inf)
        put(work, 2 * LANES + f, np.inf)
        put(work, 3 * LANES + f, -get(work, end + f))
    for s in range(arity):
        at = s * ROWS * LANES
        for f in range(LANES):
            ratio, least = get(work, at + f), get(work, at + LANES + f)
            size = abs(ratio)
            put(work, at + 5 * LANES + f, min(least, size))
            put(work, at + 6 * LANES + f, min(get(work, at + 2 * LANES + f), max(least, size)))
            # A positive ratio means that the bit is one.
            put(work, at + 7 * LANES + f, from_bits(bits_of(get(work, at + 3 * LANES + f)) ^ (~bits_of(ratio) & SIGN)))
    for s in range(arity - 1, -1, -1):
        at = s * ROWS * LANES
        for f in range(LANES):
            ratio, least, second = get(work, at + f), get(work, at + 5 * LANES + f), get(work, at + 6 * LANES + f)
            sign = get(work, at + 7 * LANES + f)
            rest = second if abs(ratio) == least else least
            put(work, at + f, from_bits(bits_of(rest) ^ ((bits_of(sign) ^ ~bits_of(ratio)) & SIGN)))
            put(work, at + LANES + f, least)
            put(work, at + 2 * LANES + f, second)
            put(work, at + 3 * LANES + f, sign)


@fast_kernel
def _max_clauses(work, arity):
    """Update clauses; kept behind the last slot: the two largest ratios and the sum of the positive ones."""
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
