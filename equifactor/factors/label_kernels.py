# mypy: ignore-errors
"""Messages of factors over two labelled variables: Potts and truncated linear factors, each O(d) for d states.

What is left out of a sum is never subtracted from it: sums run from both ends up to the gap. `places` goes along with
the labels of a factor: for Potts the state of the other variable with the same label (-1: none), for truncated linear
factors the states of a variable by growing label. `label_places` makes it once for a structure.
"""

import math

import numpy as np

from equifactor.factors.chain_kernels import plus
from equifactor.graph.layout import CARD, MSG, SLOT
from equifactor.kernels.jit import fast_kernel, kernel

NEG_INF = -math.inf


@kernel
def label_places(factors, slots, which, is_potts, word_ptr, words, places):
    """Fill `places` at the words of some factors, all of them Potts or all truncated linear."""
    for p in which:
        s, word = factors[p, SLOT], word_ptr[p]
        d0, d1 = slots[s, CARD], slots[s + 1, CARD]
        first, second = words[word : word + d0], words[word + d0 : word + d0 + d1]
        by_first, by_second = np.argsort(first), np.argsort(second)
        if not is_potts:
            places[word : word + d0] = by_first
            places[word + d0 : word + d0 + d1] = by_second
            continue
        places[word : word + d0 + d1] = -1
        y = 0
        for x in by_first:
            while y < d1 and second[by_second[y]] < first[x]:
                y += 1
            if y < d1 and second[by_second[y]] == first[x]:
                places[word + x] = by_second[y]
                places[word + d0 + by_second[y]] = x


# ---- Potts ------------------------------------------------------------------------------------------------


@fast_kernel
def potts_messages(slots, first, equal, different, places, word, q, out, is_max):
    """Log messages of a factor with the log value `equal` where both labels are the same and `different` elsewhere."""
    m0, d0 = slots[first, MSG], slots[first, CARD]
    m1, d1 = slots[first + 1, MSG], slots[first + 1, CARD]
    others = np.empty(max(d0, d1))
    _potts_message(m0, d0, m1, d1, equal, different, places, word, others, q, out, is_max)
    _potts_message(m1, d1, m0, d0, equal, different, places, word + d0, others, q, out, is_max)


@fast_kernel
def _potts_message(m, d, m_from, d_from, equal, different, places, word, others, q, out, is_max):
    """The message to one variable; others [d_from] becomes the sum of what is received but for one state."""
    after = NEG_INF
    for y in range(d_from - 1, -1, -1):
        others[y] = after
        after = plus(after, q[m_from + y], is_max)
    before = NEG_INF
    for y in range(d_from):
        others[y] = plus(others[y], before, is_max)
        before = plus(before, q[m_from + y], is_max)
    for x in range(d):
        y = places[word + x]
        if y < 0:
            out[m + x] = different + before
        else:
            out[m + x] = plus(equal + q[m_from + y], different + others[y], is_max)


# ---- truncated linear -------------------------------------------------------------------------------------


@fast_kernel
def truncated_linear_messages(slots, first, slope, limit, labels, places, word, q, out, is_max):
    """Log messages of a factor with the log value max(slope * distance of the labels, limit); both are at most 0."""
    m0, d0 = slots[first, MSG], slots[first, CARD]
    m1, d1 = slots[first + 1, MSG], slots[first + 1, CARD]
    scratch = np.empty(max(d0, d1) + 1)
    w0, w1 = word, word + d0
    _linear_message(m0, d0, m1, d1, slope, limit, labels, places, w0, w1, scratch, q, out, is_max)
    _linear_message(m1, d1, m0, d0, slope, limit, labels, places, w1, w0, scratch, q, out, is_max)


@fast_kernel
def _linear_message(m, d, m_from, d_from, slope, limit, labels, places, word, w_from, scratch, q, out, is_max):
    """The message to one variable, from both sides; what is far away has the limit."""
    for x in range(d):
        out[m + x] = NEG_INF
    _from_one_side(m, d, m_from, d_from, slope, limit, labels, places, word, w_from, 1, scratch, q, out, is_max)
    _from_one_side(m, d, m_from, d_from, slope, limit, labels, places, word, w_from, -1, scratch, q, out, is_max)


@fast_kernel
def _from_one_side(
    m, d, m_from, d_from, slope, limit, labels, places, word, w_from, side, scratch, q, out, is_max
):  # fmt: skip
    """Add what comes from the labels below (side 1, with the equal ones) or above (side -1).

    The states in reach of x form a window that moves along with x: those that enter are summed up in `back`, those that
    leave were summed up from the other end, in scratch, when `back` was emptied into it. Beyond the window, `far` sums
    up what has left it. A term carries slope * its label, which the distance from x completes.
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
