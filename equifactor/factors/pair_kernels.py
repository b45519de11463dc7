# mypy: ignore-errors
"""Arithmetic that the kernels of several kinds share: sums of logs, and pairs of numbers for binary variables."""

import math

from equifactor.kernels.fastmath import MIN_EXP, NEG_INF, exp_, get, log_, put
from equifactor.kernels.jit import fast_kernel, inlined

ABOVE_ZERO = 1e-300  # It stands for a probability above zero, however small that is.
LEAST = 1e-280  # A linear message above this is accurate: products below 1e-308 that were lost are below its rounding.


@fast_kernel
def plus(a, b, is_max):
    """Return the sum of the semiring: the larger of two logs, or the log of the sum."""
    top, low = max(a, b), min(a, b)
    if is_max or low == NEG_INF:
        return top
    return top + math.log1p(math.exp(low - top))


@fast_kernel
def to_linear_pairs(m, k, q):
    """Replace k pairs of logs by linear pairs of sum 1; False, with q untouched, where a pair is too wide or all zero.

    A true zero stays a zero. Chains of such pairs cannot underflow to a wrong zero. The smaller of two complementary
    sums is at least the largest of the smaller members of its pairs, or it is beside a sum of nearly 1.
    """
    bad = 0
    for x in range(m, m + 2 * k, 2):
        a, b = get(q, x), get(q, x + 1)
        low = min(a, b)
        bad += (max(a, b) == NEG_INF) | ((low > NEG_INF) & (low - max(a, b) < MIN_EXP))
    if bad > 0:
        return False
    for x in range(m, m + 2 * k, 2):
        a, b = get(q, x), get(q, x + 1)
        top, low = max(a, b), min(a, b)
        gap = max(low - top, MIN_EXP)
        e = exp_(gap)
        e = e if low > NEG_INF else 0.0
        high = 1.0 / (1.0 + e)
        put(q, x, high if a >= b else e * high)
        put(q, x + 1, e * high if a >= b else high)
    return True


@fast_kernel
def to_logs(x, stop, out):
    """Replace the linear numbers out[x:stop] by their logs."""
    for n in range(x, stop):
        r = get(out, n)
        ln = log_(r if r > 0.0 else 1.0)
        put(out, n, ln if r > 0.0 else NEG_INF)


@inlined
def send_pair(x, if_0, if_1, out):
    """Store a pair, scaled to a sum of 1, and return the smaller of the two before scaling."""
    scale = 1.0 / (if_0 + if_1) if if_0 + if_1 > 0.0 else 0.0
    put(out, x, if_0 * scale)
    put(out, x + 1, if_1 * scale)
    return min(if_0, if_1)
