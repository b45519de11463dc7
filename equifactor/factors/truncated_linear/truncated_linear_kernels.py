# mypy: ignore-errors
"""Messages and expected logs of truncated linear factors, each O(d) for d states.

Messages never subtract a term from a sum. `places` holds the states of a variable by growing label; see
`label_kernels`.
"""

import math

import numpy as np

from equifactor.factors.pair_kernels import plus
from equifactor.graph.layout import CARD, MSG
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined


@fast_kernel
def truncated_linear_messages(slots, first, slope, limit, labels, places, word, q, out, is_max):
    """Compute log messages of a factor with the log value max(slope * label distance, limit), both at most 0."""
    m0, d0 = slots[first, MSG], slots[first, CARD]
    m1, d1 = slots[first + 1, MSG], slots[first + 1, CARD]
    scratch = np.empty(max(d0, d1) + 1)
    w0, w1 = word, word + d0
    _linear_message(m0, d0, m1, d1, slope, limit, labels, places, w0, w1, scratch, q, out, is_max)
    _linear_message(m1, d1, m0, d0, slope, limit, labels, places, w1, w0, scratch, q, out, is_max)


@fast_kernel
def _linear_message(m, d, m_from, d_from, slope, limit, labels, places, word, w_from, scratch, q, out, is_max):
    """Compute the message to one variable from both sides; labels that are far away have the limit."""
    for x in range(d):
        out[m + x] = NEG_INF
    _from_one_side(m, d, m_from, d_from, slope, limit, labels, places, word, w_from, 1, scratch, q, out, is_max)
    _from_one_side(m, d, m_from, d_from, slope, limit, labels, places, word, w_from, -1, scratch, q, out, is_max)


@fast_kernel
def _from_one_side(
    m, d, m_from, d_from, slope, limit, labels, places, word, w_from, side, scratch, q, out, is_max
):  # fmt: skip
    """Add the part of the message that comes from labels below or equal (side 1), or from labels above (side -1).

    The states in reach of x form a window that moves along with x. States that enter it are summed up in `back`. When
    the states in scratch have all left, the window is summed up again from its end, into scratch, and `back` is
    emptied. `far` sums up the states that have left. A term carries slope * its label, which the distance from x
    completes.
    """
    low, high, split = 0, 0, 0  # the window are numbers low to high - 1; those from split on are in `back`
    back, far = NEG_INF, NEG_INF
    for n in range(d):
        x = places[word + (n if side > 0 else d - 1 - n)]
        label = labels[word + x]
        while high < d_from:
            y = places[w_from + (high if side > 0 else d_from - 1 - high)]
            gap = side * (label - labels[w_from + y])
            if gap < 0 or (gap == 0 and side < 0):
                break
            back = plus(back, q[m_from + y] - side * slope * labels[w_from + y], is_max)
            high += 1
        while low < high:
            y = places[w_from + (low if side > 0 else d_from - 1 - low)]
            if slope * abs(label - labels[w_from + y]) >= limit:
                break
            far = plus(far, q[m_from + y], is_max)
            if low == split:  # all terms are behind: sum them up from their end
                total = NEG_INF
                for r in range(high - 1, low - 1, -1):
                    z = places[w_from + (r if side > 0 else d_from - 1 - r)]
                    total = plus(total, q[m_from + z] - side * slope * labels[w_from + z], is_max)
                    scratch[r] = total
                split, back = high, NEG_INF
            low += 1
        near = plus(scratch[low], back, is_max) if low < split else back
        here = plus(near + side * slope * label, far + limit if far > NEG_INF else NEG_INF, is_max)
        out[m + x] = plus(out[m + x], here, is_max)


@fast_kernel
def expect_truncated_linear(d, n, state, own, others, words, places, start, finite, zero, q, gain):
    """Add sum_y q(y) max(slope |x - y|, limit): the labels within reach of x form a window that moves with x."""
    slope = finite[start]
    reach = math.inf
    if zero[start + 1] == 0.0 and slope < 0.0:
        reach = finite[start + 1] / slope
    limit = finite[start + 1]
    mass, moment = np.zeros(n + 1), np.zeros(n + 1)  # of the first labels, in their order
    for r in range(n):
        y = places[others + r]
        mass[r + 1] = mass[r] + q[state + y]
        moment[r + 1] = moment[r] + q[state + y] * (words[others + y] - words[others])
    low, mid, high = 0, 0, 0  # the window are numbers low to high - 1; those before mid have smaller labels
    for r in range(d):
        x = places[own + r]
        label = words[own + x]
        while low < n and label - words[others + places[others + low]] > reach:
            low += 1
        while mid < n and words[others + places[others + mid]] <= label:
            mid += 1
        while high < n and words[others + places[others + high]] - label <= reach:
            high += 1
        at = label - words[others]
        below = at * (mass[mid] - mass[low]) - (moment[mid] - moment[low])
        above = (moment[high] - moment[mid]) - at * (mass[high] - mass[mid])
        gain[x] += slope * (below + above) + limit * (mass[n] - (mass[high] - mass[low]))


@inlined
def truncated_linear_value(values, start, a, b):
    """Return the log value of a truncated linear factor at the labels a and b."""
    return max(values[start] * abs(a - b), values[start + 1])
