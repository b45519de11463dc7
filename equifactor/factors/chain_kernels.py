# mypy: ignore-errors
"""Messages of factors that read their binary variables one after the other: parity, clause and count.

Each is an automaton: what it remembers of the variables before slot j (an even or odd number of ones, whether a literal
held, how many did) meets what is still to come behind slot j. Both ends only ever add positive numbers, so nothing
cancels: in the log domain for any range, and in linear numbers where messages are not too wide for them. A forward pass
leaves its pairs in `out`, the backward pass replaces them by messages.

The edge states of a factor follow each other: those of slot j are m + 2j and m + 2j + 1. k is the number of slots.
"""

import math

import numpy as np

from equifactor.kernels.fastmath import MIN_EXP, exp_, get, log_, put
from equifactor.kernels.jit import fast_kernel

NEG_INF = -math.inf
WIDEST_VALUE = 300.0  # the largest log value of a violated clause that the linear path takes


@fast_kernel
def plus(a, b, is_max):
    """The sum of the semiring: the larger of two logs, or the log of the sum."""
    top, low = max(a, b), min(a, b)
    if is_max or low == NEG_INF:
        return top
    return top + math.log1p(math.exp(low - top))


@fast_kernel
def to_linear_pairs(m, k, q):
    """Replace k pairs of logs by linear pairs of sum 1; False, with q untouched, where a pair is too wide or all zero.

    A true zero stays a zero. Chains of such pairs cannot underflow to a wrong zero: the smaller of two complementary
    sums is at least the largest of the smaller members of its pairs, or beside a sum of nearly 1.
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
    """The logs of the linear numbers out[x:stop]."""
    for n in range(x, stop):
        r = get(out, n)
        ln = log_(r if r > 0.0 else 1.0)
        put(out, n, ln if r > 0.0 else NEG_INF)


# ---- parity -----------------------------------------------------------------------------------------------


@fast_kernel
def parity_messages(m, k, even, odd, q, out, is_max):
    """Log messages of a parity whose number of ones has the log value `even` or `odd`."""
    if is_max:
        _parity_maxima(m, k, even, odd, q, out)
    else:
        _parity_chain(m, k, even, odd, q, out, False)


@fast_kernel
def _parity_chain(m, k, even, odd, q, out, is_max):
    """What is before a slot is even or odd; what comes after has a value for each."""
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
    """Everyone takes its better state; where the parity is wrong, the one that loses least changes its mind.

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
    if total == NEG_INF:  # some variable, or the factor, has no possible state: rare, and not worth an exception here
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
    """Normalised linear messages from the linear pairs q of `to_linear_pairs`; the sum semiring."""
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


# ---- clause -----------------------------------------------------------------------------------------------


@fast_kernel
def clause_messages(m, k, violated, signs, word, q, out, is_max):
    """Log messages of a clause that has the log value `violated` where no literal holds, and 0 elsewhere.

    The literal of slot j holds in state signs[word + j].
    """
    none, some = 0.0, NEG_INF  # of the literals so far holds none, or some
    for j in range(k):
        x = m + 2 * j
        holds, fails = x + signs[word + j], x + 1 - signs[word + j]
        out[x], out[x + 1] = none, some
        t, f = q[holds], q[fails]
        none, some = none + f, plus(some + plus(t, f, is_max), none + t, is_max)
    none, some = violated, 0.0  # the value of the rest where so far none holds, or some does
    for j in range(k - 1, -1, -1):
        x = m + 2 * j
        holds, fails = x + signs[word + j], x + 1 - signs[word + j]
        f_none, f_some = out[x], out[x + 1]
        out[fails] = plus(f_none + none, f_some + some, is_max)
        out[holds] = plus(f_none, f_some, is_max) + some
        t, f = q[holds], q[fails]
        none, some = plus(f + none, t + some, is_max), plus(f, t, is_max) + some


@fast_kernel
def clause_sums(m, k, violated, signs, word, q, out):
    """Normalised linear messages from the linear pairs q of `to_linear_pairs`; violated <= WIDEST_VALUE."""
    none, some = 1.0, 0.0
    for j in range(k):
        x, sign = m + 2 * j, get(signs, word + j)
        put(out, x, none)
        put(out, x + 1, some)
        some += none * get(q, x + sign)
        none *= get(q, x + 1 - sign)
    none = math.exp(violated)
    for j in range(k - 1, -1, -1):
        x, sign = m + 2 * j, get(signs, word + j)
        fails = get(out, x) * none + get(out, x + 1)  # where it holds, the rest sums to 1
        scale = 1.0 / (1.0 + fails)
        put(out, x + sign, scale)
        put(out, x + 1 - sign, fails * scale)
        none = get(q, x + 1 - sign) * none + get(q, x + sign)


# ---- count ------------------------------------------------------------------------------------------------


@fast_kernel
def cap_of_count(log_phi, start, k):
    """From how many literals on the values no longer change, and whether it is fewer to count those that fail."""
    up = k
    while up > 0 and log_phi[start + up - 1] == log_phi[start + k]:
        up -= 1
    down = k
    while down > 0 and log_phi[start + k - down + 1] == log_phi[start]:
        down -= 1
    return min(up, down), down < up


@fast_kernel
def count_messages(m, k, log_phi, start, signs, word, q, out, is_max):
    """Log messages of a factor that has the log value log_phi[start + n] where n literals hold.

    Cost O(k cap): larger counts than the cap are one.
    """
    cap, fails = cap_of_count(log_phi, start, k)
    before = np.empty((k, cap + 1))  # how many of the earlier ones were counted
    row = np.full(cap + 1, NEG_INF)
    row[0] = 0.0
    for j in range(k):
        x = m + 2 * j
        sign = signs[word + j] ^ fails
        yes, no = q[x + sign], q[x + 1 - sign]
        before[j] = row
        for c in range(cap, -1, -1):
            stays = plus(yes, no, is_max) if c == cap else no
            row[c] = plus(row[c] + stays, row[c - 1] + yes if c > 0 else NEG_INF, is_max)
    for c in range(cap + 1):
        row[c] = log_phi[start + k - c] if fails else log_phi[start + c]
    for j in range(k - 1, -1, -1):
        x = m + 2 * j
        sign = signs[word + j] ^ fails
        yes, no = q[x + sign], q[x + 1 - sign]
        if_yes, if_no = NEG_INF, NEG_INF
        for c in range(cap + 1):
            following = row[min(c + 1, cap)]
            if_no = plus(if_no, before[j, c] + row[c], is_max)
            if_yes = plus(if_yes, before[j, c] + following, is_max)
            row[c] = plus(no + row[c], yes + following, is_max)
        out[x + sign], out[x + 1 - sign] = if_yes, if_no
