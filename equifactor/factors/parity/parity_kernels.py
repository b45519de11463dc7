# mypy: ignore-errors
"""Messages and expected logs of parities.

The message to slot j combines two pairs of sums: the number of ones before slot j is even or odd, and the same behind
slot j. Both sides only ever add positive numbers, so nothing cancels. The log domain takes any range; linear numbers
take messages that are not too wide. A forward pass leaves its pairs in `out`, the backward pass replaces them by
messages.

The edge states of a factor follow each other: those of slot j are m + 2j and m + 2j + 1. k is the number of slots.
"""

import math

from equifactor.factors.pair_kernels import ABOVE_ZERO, plus
from equifactor.kernels.fastmath import MIN_EXP, NEG_INF, get, put
from equifactor.kernels.jit import fast_kernel, inlined

# The sums of a parity are those of the product of q(0) - q(1) over its slots: the log of its absolute value, how many
# terms are zero, how many are negative, and how many variables may be in either state.
LOG, ZEROS, NEGATIVE, OPEN, NUM_SUMS = 0, 1, 2, 3, 4


@fast_kernel
def parity_is_linear(even, odd):
    """Return whether the two log values of a parity are close enough to each other for linear numbers."""
    low, high = min(even, odd), max(even, odd)
    return high > NEG_INF and (low == NEG_INF or low - high > MIN_EXP)


@fast_kernel
def parity_messages(m, k, even, odd, q, out, is_max):
    """Compute log messages of a parity whose number of ones has the log value `even` or `odd`."""
    if is_max:
        _parity_maxima(m, k, even, odd, q, out)
    else:
        _parity_chain(m, k, even, odd, q, out, False)


@fast_kernel
def _parity_chain(m, k, even, odd, q, out, is_max):
    """Compute log messages from pairs of even and odd before each slot, and of even and odd behind it."""
    e, o = 0.0, NEG_INF
    for x in range(m, m + 2 * k, 2):
        out[x], out[x + 1] = e, o
        e, o = plus(e + q[x], o + q[x + 1], is_max), plus(e + q[x + 1], o + q[x], is_max)
    e, o = even, odd
    for x in range(m + 2 * k - 2, m - 2, -2):
        f_e, f_o = out[x], out[x + 1]
        out[x], out[x + 1] = plus(f_e + e, f_o + o, is_max), plus(f_e + o, f_o + e, is_max)
        e, o = plus(q[x] + e, q[x + 1] + o, is_max), plus(q[x] + o, q[x + 1] + e, is_max)


@fast_kernel
def _parity_maxima(m, k, even, odd, q, out):
    """Compute maxima: all variables take their better state; if the parity is wrong, the one that loses least changes.

    The factor's own two values take part like one more variable.
    """
    total = max(even, odd)
    wrong = odd > even
    least, second, where = abs(even - odd) if min(even, odd) > NEG_INF else math.inf, math.inf, -1
    for x in range(m, m + 2 * k, 2):
        a, b = get(q, x), get(q, x + 1)
        top = max(a, b)
        total += top
        gap = top - min(a, b) if min(a, b) > NEG_INF else math.inf
        wrong ^= b > a
        second = min(second, max(gap, least))
        where = x if gap < least else where
        least = min(least, gap)
    if total == NEG_INF:  # some variable, or the factor, has no possible state: rare, so the slower chain will do
        _parity_chain(m, k, even, odd, q, out, True)
        return
    for x in range(m, m + 2 * k, 2):
        a, b = get(q, x), get(q, x + 1)
        rest = total - max(a, b)
        other = rest - (second if x == where else least)
        keeps_0 = (b > a) == wrong
        put(out, x, rest if keeps_0 else other)
        put(out, x + 1, other if keeps_0 else rest)


@fast_kernel
def parity_sums(m, k, even, odd, q, out):
    """Compute normalised linear messages from the linear pairs q of `to_linear_pairs`; the sum semiring."""
    e, o = 1.0, 0.0
    for x in range(m, m + 2 * k, 2):
        put(out, x, e)
        put(out, x + 1, o)
        a, b = get(q, x), get(q, x + 1)
        e, o = e * a + o * b, e * b + o * a
    top = max(even, odd)
    e, o = math.exp(even - top), math.exp(odd - top)
    e, o = e / (e + o), o / (e + o)
    for x in range(m + 2 * k - 2, m - 2, -2):
        f_e, f_o = get(out, x), get(out, x + 1)
        put(out, x, f_e * e + f_o * o)
        put(out, x + 1, f_e * o + f_o * e)
        a, b = get(q, x), get(q, x + 1)
        e, o = e * a + o * b, e * b + o * a


@fast_kernel
def join_parity(sums, o, even, odd, way):
    """Let a slot of probabilities `even` and `odd` join the sums at o (way 1) or leave them (way -1)."""
    if even == odd:
        sums[o + ZEROS] += way
    else:
        sums[o + LOG] += way * math.log(abs(even - odd))
    sums[o + NEGATIVE] += way if odd > even else 0
    sums[o + OPEN] += way if even > 0.0 and odd > 0.0 else 0


@fast_kernel
def odds_of_parity(sums, o):
    """Return the probabilities that the number of ones among the slots that joined is even, and odd."""
    is_odd = int(sums[o + NEGATIVE] + 0.5) % 2 == 1
    if sums[o + OPEN] < 0.5:
        return (0.0, 1.0) if is_odd else (1.0, 0.0)
    product = math.exp(min(0.0, sums[o + LOG])) if sums[o + ZEROS] < 0.5 else 0.0
    product = -product if is_odd else product
    return max(ABOVE_ZERO, 0.5 + 0.5 * product), max(ABOVE_ZERO, 0.5 - 0.5 * product)


@inlined
def parity_value(values, start, ones):
    """Return the log value of a parity at a number of ones."""
    return values[start + (ones & 1)]
