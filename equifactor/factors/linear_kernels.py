# mypy: ignore-errors
"""Messages of one noisy-or, count or sparse table in linear numbers, and the quick maxima of counts and of plain ors.

What arrives are numbers up to 1, and so are the factor's own values: sums of products of them. A product that is too
small for a number counts as zero, which changes nothing as long as every message that comes out is larger than `LEAST`;
each function of sums returns its smallest one, so that the caller can go back to logs where it is not.

The edge states of a factor follow each other: those of slot j of binary ones are m + 2j and m + 2j + 1.
"""

import math

from equifactor.factors.noisy_or.noisy_or_kernels import IN_SCOPE, NEG_INF, OFF, ON
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT
from equifactor.kernels.fastmath import get, put
from equifactor.kernels.jit import fast_kernel, inlined

LEAST = 1e-280  # what was lost by products below 1e-308 is far below rounding here


@inlined
def _send(x, if_0, if_1, out):
    """Put a pair in its place, scaled to a sum of 1; the smaller one."""
    scale = 1.0 / (if_0 + if_1) if if_0 + if_1 > 0.0 else 0.0
    put(out, x, if_0 * scale)
    put(out, x + 1, if_1 * scale)
    return min(if_0, if_1)


@fast_kernel
def or_sums(m, k, log_phi, start, words, word, q, out):
    """Linear messages of a noisy-or from linear pairs of sum 1."""
    head = get(words, word)
    place = head - IN_SCOPE
    none, some = math.exp(log_phi[start]), -math.expm1(log_phi[start])
    value = start + 1
    for j in range(k):
        x = m + 2 * j
        put(out, x, none)
        put(out, x + 1, some)
        if j == place:
            continue
        active, fails = get(q, x + get(words, word + 1 + j)), get(log_phi, value)
        value += 1
        fires = active if fails == NEG_INF else -math.expm1(fails) * active
        rest = get(q, x + 1 - get(words, word + 1 + j))
        some += none * fires
        none *= rest if fails == NEG_INF else rest + active * math.exp(fails)
    if head == OFF:
        b_none, b_some = 1.0, 0.0
    elif head == ON:
        b_none, b_some = 0.0, 1.0
    else:
        x, sign = m + 2 * place, get(words, word + 1 + place)
        b_none, b_some = get(q, x + 1 - sign), get(q, x + sign)
    least = 1.0
    for j in range(k - 1, -1, -1):
        x, sign = m + 2 * j, get(words, word + 1 + j)
        if j == place:
            least = min(least, _send(x, some if sign == 0 else none, none if sign == 0 else some, out))
            continue
        value -= 1
        active, rest, fails = get(q, x + sign), get(q, x + 1 - sign), get(log_phi, value)
        f_none, f_some = get(out, x), get(out, x + 1)
        if_active = b_some
        if fails > NEG_INF:
            if_active = math.exp(fails) * b_none - math.expm1(fails) * b_some
        if_rest = f_none * b_none + f_some * b_some
        if_active_all = f_none * if_active + f_some * b_some
        least = min(
            least, _send(x, if_active_all if sign == 0 else if_rest, if_rest if sign == 0 else if_active_all, out)
        )
        b_none = rest * b_none + active * if_active
    return least


@fast_kernel
def is_plain_or(k, log_phi, start, words, word):
    """Whether a noisy-or is an or: without a leak, and no cause ever fails."""
    causes = k if get(words, word) < IN_SCOPE else k - 1
    plain = get(log_phi, start) == 0.0
    for n in range(causes):
        plain &= get(log_phi, start + 1 + n) == NEG_INF
    return plain


@fast_kernel
def or_maxima(m, k, words, word, q, out):
    """Log messages of an or, max semiring, from pairs of logs whose larger one is 0.

    With the effect present everyone takes its better state, and where none of these is active, the cause that loses
    least by it becomes so.
    """
    head = get(words, word)
    place = head - IN_SCOPE
    off, zeros = 0.0, 0  # the sum of the finite logs of inactive causes, and how many are impossible
    least, second = math.inf, math.inf  # the two smallest losses by being active
    for j in range(k):
        if j == place:
            continue
        x, sign = m + 2 * j, get(words, word + 1 + j)
        active, rest = get(q, x + sign), get(q, x + 1 - sign)
        impossible = rest == NEG_INF
        off += 0.0 if impossible else rest
        zeros += impossible
        loss = -active if active > NEG_INF else math.inf
        second = min(second, max(loss, least))
        least = min(least, loss)
    if_on, if_off = 0.0 if head != OFF else NEG_INF, 0.0 if head != ON else NEG_INF
    if head >= IN_SCOPE:
        x, sign = m + 2 * place, get(words, word + 1 + place)
        if_on, if_off = get(q, x + sign), get(q, x + 1 - sign)
        put(out, x + sign, -least)
        put(out, x + 1 - sign, off if zeros == 0 else NEG_INF)
    for j in range(k):
        if j == place:
            continue
        x, sign = m + 2 * j, get(words, word + 1 + j)
        active, rest = get(q, x + sign), get(q, x + 1 - sign)
        impossible = rest == NEG_INF
        others_off = off - (0.0 if impossible else rest) if zeros == (1 if impossible else 0) else NEG_INF
        loss = -active if active > NEG_INF else math.inf
        others = second if loss == least else least
        put(out, x + sign, if_on)
        put(out, x + 1 - sign, max(if_on - others, if_off + others_off))


@fast_kernel
def count_sums(m, k, cap, fails, phi, start, signs, word, rows, q, out):
    """Linear messages of a count from linear pairs of sum 1; rows is scratch for (k + 1) (cap + 1) numbers."""
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
        least = min(least, _send(x, if_yes if sign == 0 else if_no, if_no if sign == 0 else if_yes, out))
    return least


@fast_kernel
def count_maxima(m, k, cap, fails, log_phi, start, signs, word, rows, q, out):
    """Log messages of a count, max semiring; rows as above."""
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
def listed_sums(factors, slots, p, phi, words, word, after, q, out):
    """Linear messages of a sparse table without a default, from linear messages whose largest entries are 1.

    after is scratch for arity + 1 numbers.
    """
    first, last = factors[p, SLOT], factors[p + 1, SLOT]
    start, k = factors[p, ENTRY], last - first
    for x in range(slots[first, MSG], slots[last - 1, MSG] + slots[last - 1, CARD]):
        put(out, x, 0.0)
    put(after, k, 1.0)
    for n in range(factors[p + 1, ENTRY] - start - 1):
        at = word + n * k
        for j in range(k - 1, -1, -1):
            put(after, j, get(after, j + 1) * get(q, slots[first + j, MSG] + get(words, at + j)))
        before = get(phi, start + 1 + n)
        for j in range(k):
            x = slots[first + j, MSG] + get(words, at + j)
            put(out, x, get(out, x) + before * get(after, j + 1))
            before *= get(q, x)
    least = 1.0
    for s in range(first, last):
        m, d = slots[s, MSG], slots[s, CARD]
        scale = 0.0
        for x in range(m, m + d):
            scale += get(out, x)
            least = min(least, get(out, x))
        inverse = 1.0 / scale if scale > 0.0 else 0.0
        for x in range(m, m + d):
            put(out, x, get(out, x) * inverse)
    return least
