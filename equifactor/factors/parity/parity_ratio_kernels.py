# mypy: ignore-errors
"""Log ratios of the messages of hard parities, `LANES` factors side by side; `ratio_rows` describes `work`.

A parity is an automaton that reads its variables one after the other. Its states are an even and an odd number of ones
so far. The weights before and after a slot are sums of products of probabilities, so nothing cancels.
"""

import numpy as np

from equifactor.factors.ratio_rows import LANES, LIMIT, ROWS
from equifactor.kernels.fastmath import bits_of, exp_, from_bits, get, log_ratio_, put
from equifactor.kernels.jit import fast_kernel

SHORT = 500  # Up to this arity a product of sums between 1 and 2 is a normal number.
SIGN = np.int64(-(1 << 63))  # The sign bit of a number.


@fast_kernel
def sum_parities(work, arity):
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
def max_parities(work, arity):
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
