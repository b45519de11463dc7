# mypy: ignore-errors
"""Messages of noisy-ors in linear numbers, and the quick maxima of plain ors.

Incoming numbers are at most 1, and so are the factor's own values. A product that underflows counts as zero. This
changes nothing as long as every outgoing message is larger than `LEAST`. `or_sums` returns the smallest message, so
that the caller can go back to logs if it is too small.

The edge states of a factor follow each other: those of slot j are m + 2j and m + 2j + 1. k is the number of slots.
"""

import math

from equifactor.factors.noisy_or.noisy_or_words import IN_SCOPE, OFF, ON
from equifactor.factors.pair_kernels import send_pair
from equifactor.kernels.fastmath import NEG_INF, get, put
from equifactor.kernels.jit import fast_kernel


@fast_kernel
def or_sums(m, k, log_phi, start, words, word, q, out):
    """Compute linear messages of a noisy-or from linear pairs of sum 1; return the smallest."""
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
            least = min(least, send_pair(x, some if sign == 0 else none, none if sign == 0 else some, out))
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
            least, send_pair(x, if_active_all if sign == 0 else if_rest, if_rest if sign == 0 else if_active_all, out)
        )
        b_none = rest * b_none + active * if_active
    return least


@fast_kernel
def is_plain_or(k, log_phi, start, words, word):
    """Return whether a noisy-or is an or: without a leak, and no cause ever fails."""
    causes = k if get(words, word) < IN_SCOPE else k - 1
    plain = get(log_phi, start) == 0.0
    for n in range(causes):
        plain &= get(log_phi, start + 1 + n) == NEG_INF
    return plain


@fast_kernel
def or_maxima(m, k, words, word, q, out):
    """Compute log messages of an or, max semiring, from pairs of logs whose larger one is 0.

    If the effect is present, every cause takes its better state. If no cause is active then, the one that loses least
    becomes active.
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
