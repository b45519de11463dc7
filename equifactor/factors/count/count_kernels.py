# mypy: ignore-errors
"""Messages and expected logs of counts.

The message to slot j combines sums by the number of literals that hold before slot j and behind it. All numbers from
the cap on have the same log value and are merged, so the cost is O(arity cap).

The edge states of a factor follow each other: those of slot j are m + 2j and m + 2j + 1. k is the number of slots.
"""

import numpy as np

from equifactor.factors.pair_kernels import ABOVE_ZERO, plus, send_pair
from equifactor.kernels.fastmath import NEG_INF, get, put
from equifactor.kernels.jit import fast_kernel

# The sums of a count: how many literals hold for certain, how many may hold, the lowest and the highest number that is
# not negligible, and then the probability of each number.
CERTAIN, POSSIBLE, LOW, HIGH, NUMBERS = 0, 1, 2, 3, 4
_NEGLIGIBLE = 1e-60  # Numbers at both ends that are less likely are left out: most of those of long scopes.


@fast_kernel
def cap_of_count(log_phi, start, k):
    """Return the cap, the number of literals from which on all log values are equal, and whether failing ones count.

    Literals that hold or literals that fail are counted, whichever gives the smaller cap.
    """
    up = k
    while up > 0 and log_phi[start + up - 1] == log_phi[start + k]:
        up -= 1
    down = k
    while down > 0 and log_phi[start + k - down + 1] == log_phi[start]:
        down -= 1
    return min(up, down), down < up


@fast_kernel
def count_messages(m, k, log_phi, start, signs, word, q, out, is_max):
    """Compute log messages of a factor that has the log value log_phi[start + n] where n literals hold.

    Cost O(k cap): counts from the cap on are merged.
    """
    cap, fails = cap_of_count(log_phi, start, k)
    before = np.empty((k, cap + 1))  # the log sum of each number counted at earlier slots
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


@fast_kernel
def count_sums(m, k, cap, fails, phi, start, signs, word, rows, q, out):
    """Compute linear messages of a count from linear pairs of sum 1; rows is scratch for (k + 1) (cap + 1) numbers."""
    width = cap + 1
    for c in range(width):
        put(rows, c, 0.0)
    put(rows, 0, 1.0)
    for j in range(k):
        x, at = m + 2 * j, j * width
        sign = get(signs, word + j) ^ fails
        yes, no = get(q, x + sign), get(q, x + 1 - sign)
        put(rows, at + width, get(rows, at) * (no if cap > 0 else 1.0))
        for c in range(1, width):
            put(rows, at + width + c, get(rows, at + c) * (no if c < cap else 1.0) + get(rows, at + c - 1) * yes)
    last = k * width
    for c in range(width):
        put(rows, last + c, get(phi, start + (k - c if fails else c)))
    least = 1.0
    for j in range(k - 1, -1, -1):
        x, at = m + 2 * j, j * width
        sign = get(signs, word + j) ^ fails
        yes, no = get(q, x + sign), get(q, x + 1 - sign)
        if_yes, if_no = 0.0, 0.0
        for c in range(width):
            before, same, more = get(rows, at + c), get(rows, last + c), get(rows, last + min(c + 1, cap))
            if_no += before * same
            if_yes += before * more
            put(rows, last + c, no * same + yes * more)
        least = min(least, send_pair(x, if_yes if sign == 0 else if_no, if_no if sign == 0 else if_yes, out))
    return least


@fast_kernel
def count_maxima(m, k, cap, fails, log_phi, start, signs, word, rows, q, out):
    """Compute log messages of a count, max semiring; rows is scratch as in `count_sums`."""
    width = cap + 1
    for c in range(width):
        put(rows, c, NEG_INF)
    put(rows, 0, 0.0)
    for j in range(k):
        x, at = m + 2 * j, j * width
        sign = get(signs, word + j) ^ fails
        yes, no = get(q, x + sign), get(q, x + 1 - sign)
        both = max(yes, no)
        put(rows, at + width, get(rows, at) + (no if cap > 0 else both))
        for c in range(1, width):
            put(rows, at + width + c, max(get(rows, at + c) + (no if c < cap else both), get(rows, at + c - 1) + yes))
    last = k * width
    for c in range(width):
        put(rows, last + c, get(log_phi, start + (k - c if fails else c)))
    for j in range(k - 1, -1, -1):
        x, at = m + 2 * j, j * width
        sign = get(signs, word + j) ^ fails
        yes, no = get(q, x + sign), get(q, x + 1 - sign)
        if_yes, if_no = NEG_INF, NEG_INF
        for c in range(width):
            before, same, more = get(rows, at + c), get(rows, last + c), get(rows, last + min(c + 1, cap))
            if_no = max(if_no, before + same)
            if_yes = max(if_yes, before + more)
            put(rows, last + c, max(no + same, yes + more))
        put(out, x + sign, if_yes)
        put(out, x + 1 - sign, if_no)


@fast_kernel
def join_count(sums, o, yes, no, way):
    """Let a literal that holds with probability `yes` join the sums at o (way 1) or leave them (way -1)."""
    sums[o + CERTAIN] += way if no == 0.0 else 0
    sums[o + POSSIBLE] += way if yes > 0.0 else 0
    if way > 0:
        _convolve(sums, o, yes, no)
    else:
        _deconvolve(sums, o, yes, no)


@fast_kernel
def _convolve(sums, o, yes, no):
    """Add one literal to the distribution of the number of literals that hold."""
    low, high, n = int(sums[o + LOW]), int(sums[o + HIGH]), o + NUMBERS
    sums[n + high + 1] = sums[n + high] * yes
    for c in range(high, low, -1):
        sums[n + c] = sums[n + c] * no + sums[n + c - 1] * yes
    sums[n + low] *= no
    _cut_ends(sums, o, low, high + 1)


@fast_kernel
def _deconvolve(sums, o, yes, no):
    """Remove one literal from the distribution of the number of literals that hold.

    The recurrence divides by the probability of the likelier outcome, so that errors shrink along it.
    """
    low, high, n = int(sums[o + LOW]), int(sums[o + HIGH]), o + NUMBERS
    before = 0.0
    if yes <= 0.5:
        for c in range(low, high + 1):
            before = max(0.0, (sums[n + c] - yes * before) / no)
            sums[n + c] = before
    else:
        here = sums[n + high]
        for c in range(high, max(low, 1) - 1, -1):
            before = max(0.0, (here - no * before) / yes)
            here = sums[n + c - 1]
            sums[n + c - 1] = before
        sums[n + high] = 0.0
        low = max(0, low - 1)
    _cut_ends(sums, o, low, high)


@fast_kernel
def _cut_ends(sums, o, low, high):
    """Leave out numbers that are impossible or negligible at both ends."""
    n = o + NUMBERS
    while high > int(sums[o + POSSIBLE] + 0.5):
        sums[n + high] = 0.0
        high -= 1
    while low < int(sums[o + CERTAIN] + 0.5):
        sums[n + low] = 0.0
        low += 1
    while low < high and sums[n + low] < _NEGLIGIBLE:
        sums[n + low] = 0.0
        low += 1
    while low < high and sums[n + high] < _NEGLIGIBLE:
        sums[n + high] = 0.0
        high -= 1
    sums[o + LOW], sums[o + HIGH] = low, high


@fast_kernel
def expected_count(finite, zero, sums, zeros_before, o, t):
    """Return the expected log value without zeros, and the probability of zeros; t is the place of the first value.

    Numbers that are impossible do not count, although rounding may leave them a probability.
    """
    least, most = int(sums[o + CERTAIN] + 0.5), int(sums[o + POSSIBLE] + 0.5)
    mean, zeros = 0.0, 0.0
    for c in range(max(least, int(sums[o + LOW])), min(most, int(sums[o + HIGH])) + 1):
        mean += sums[o + NUMBERS + c] * finite[t + c]
        zeros += sums[o + NUMBERS + c] * zero[t + c]
    if zeros_before[t + most + 1] == zeros_before[t + least]:
        return mean, 0.0
    return mean, max(ABOVE_ZERO, zeros)
