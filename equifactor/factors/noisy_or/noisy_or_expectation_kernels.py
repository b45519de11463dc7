# mypy: ignore-errors
"""Expected logs of noisy-ors under independent variables.

Where the effect is absent, the log is a sum over the active causes. Where it is present, it is ln(1 - e^-s) with s the
sum of the strengths, and -ln(1 - e^-s) = sum over n of e^(-ns) / n: the expectation of each term is a product over the
causes. Between some knots n the expectations h(n) are replaced by straight lines, which lie above h because h is
convex. So the result is never above the expected log. If a strength of 0.0001 is certain, the result is below it by
less than 0.01. The knot at infinity is the probability that no cause at all is active.

A factor's sums are, from its place o on: SUM_OF_LOGS, CERTAIN, FORBIDDEN, FORBIDDING, and then for each knot the log of
the product over the causes and the number of zeros in it.
"""

import math
from functools import cache

import numpy as np

from equifactor.base.typing import FloatArray
from equifactor.factors.noisy_or.noisy_or_words import IN_SCOPE, ON
from equifactor.factors.pair_kernels import ABOVE_ZERO
from equifactor.graph.layout import ENTRY, SLOT, STATE
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel

# The expected sum of the active causes' log inhibitors, the number of certain causes, the expected number of active
# causes that forbid the effect's absence, and the number of causes that can forbid it.
SUM_OF_LOGS, CERTAIN, FORBIDDEN, FORBIDDING, FIRST = 0, 1, 2, 3, 4
_EXACT = 16  # Knots are all whole numbers up to this one. With the next two, the error is below 0.01 (see above).
_RATIO = 1.25  # The ratio of neighbouring knots above `_EXACT`.
_LAST = 2**17  # The last finite knot.


@cache
def presence_knots() -> tuple[FloatArray, FloatArray]:
    """Return the knots [K+1], the last of them infinite, and the weights [K] of the others in sum_n h(n) / n."""
    knots = list(range(1, _EXACT + 1))
    while knots[-1] < _LAST:
        knots.append(min(_LAST, math.ceil(knots[-1] * _RATIO)))
    weights = np.array([1.0 / n if n <= _EXACT else 0.0 for n in knots])
    for r in range(_EXACT, len(knots)):
        a, b = knots[r - 1], knots[r]
        n = np.arange(a + 1, b + 1)
        weights[r - 1] += np.sum((b - n) / n) / (b - a)
        weights[r] += np.sum((n - a) / n) / (b - a)
    return np.array([*knots, math.inf]), weights


@fast_kernel
def join_cause(o, fails, active, rest, knots, sums, sign):
    """Add a cause of log inhibitor `fails` and these probabilities to the sums (sign 1), or take it out (sign -1)."""
    if active > 0.0 and fails == NEG_INF:
        sums[o + FORBIDDEN] += sign * active
        sums[o + FORBIDDING] += sign
    elif active > 0.0:
        sums[o + SUM_OF_LOGS] += sign * active * fails
    if fails == 0.0:
        return
    if rest == 0.0:
        sums[o + CERTAIN] += sign
    for n in range(len(knots)):
        term = rest + active * math.exp(knots[n] * fails)
        if term > 0.0:
            sums[o + FIRST + 2 * n] += sign * math.log(term)
        else:
            sums[o + FIRST + 2 * n + 1] += sign


@fast_kernel
def expected_presence(o, leak, own, knots, weights, sums):
    """Return the expected log of the effect, zeros left out, and the probability of zeros, 0 if none is possible.

    Args:
        o: where the sums of the factor begin; without the cause in question.
        leak: ln(1 - leak).
        own: the log inhibitor of that cause, 0 where it is not active.
        knots: [K+1] as in `presence_knots`.
        weights: [K] as in `presence_knots`.
        sums: the sums of all factors.
    """
    nothing = 0.0
    last = len(weights)
    if leak + own == 0.0 and sums[o + CERTAIN] < 0.5:
        nothing = max(ABOVE_ZERO, math.exp(min(0.0, sums[o + FIRST + 2 * last])))
    total = 0.0
    for n in range(last):
        if sums[o + FIRST + 2 * n + 1] < 0.5:
            h = math.exp(knots[n] * (leak + own) + sums[o + FIRST + 2 * n])
            total -= weights[n] * max(0.0, h - nothing)
    return total, nothing


@fast_kernel
def beyond_the_knots(o, leak, least, knots, sums):
    """Return an upper bound on the terms behind the last finite knot, which lower the expected log."""
    last = len(knots) - 2
    if sums[o + FIRST + 2 * last + 1] > 0.5 or leak == NEG_INF:
        return 0.0
    h = math.exp(knots[last] * leak + sums[o + FIRST + 2 * last])
    return h * min(1.0 / (knots[last] * math.expm1(least)), -math.log(-math.expm1(-least)))


@fast_kernel
def expected_absence(o, leak, own, sums):
    """Return the expected log of the effect's absence without zeros, and a price of zeros, 0 without zeros."""
    mean = sums[o + SUM_OF_LOGS] + (leak if leak > NEG_INF else 0.0) + (own if own > NEG_INF else 0.0)
    harm = (1.0 if leak == NEG_INF else 0.0) + (1.0 if own == NEG_INF else 0.0)
    if sums[o + FORBIDDING] > 0.5:
        harm += max(ABOVE_ZERO, sums[o + FORBIDDEN])
    return mean, harm


@fast_kernel
def inhibitor_of(factors, rows, p, s):
    """Return which log value is the inhibitor of the cause at slot s of a noisy-or."""
    place = rows.words[rows.word_ptr[p]] - IN_SCOPE
    j = s - factors[p, SLOT]
    return factors[p, ENTRY] + 1 + j - (1 if 0 <= place < j else 0)


@fast_kernel
def expect_noisy_or(factors, slots, finite, zero, rows, field, p, s, q, gain, harm):
    """Add the expected logs and zeros of a noisy-or at both states of slot s, a cause or the effect."""
    first, start, o = factors[p, SLOT], factors[p, ENTRY], field.ptr[p]
    head, sign = rows.words[rows.word_ptr[p]], rows.words[rows.word_ptr[p] + 1 + s - first]
    place = head - IN_SCOPE
    leak = NEG_INF if zero[start] > 0.0 else finite[start]
    on = 1.0 if head == ON else 0.0
    off = 1.0 - on
    own = 0.0
    if place >= 0 and s != first + place:
        effect, is_on = slots[first + place, STATE], rows.words[rows.word_ptr[p] + 1 + place]
        on, off = q[effect + is_on], q[effect + 1 - is_on]
    for x in range(2):
        if s == first + place:
            on = 1.0 if x == sign else 0.0
            off = 1.0 - on
        elif x == sign:
            t = inhibitor_of(factors, rows, p, s)
            own = NEG_INF if zero[t] > 0.0 else finite[t]
        else:
            own = 0.0
        if off > 0.0:
            mean, zeros = expected_absence(o, leak, own, field.sums)
            gain[x] += off * mean
            harm[x] += max(ABOVE_ZERO, off * zeros) if zeros > 0.0 else 0.0
        if on > 0.0:
            mean, zeros = expected_presence(o, leak, own, field.knots, field.weights, field.sums)
            gain[x] += on * mean
            harm[x] += max(ABOVE_ZERO, on * zeros) if zeros > 0.0 else 0.0


@fast_kernel
def expected_log_of_noisy_or(factors, slots, finite, zero, rows, field, p, q):
    """Return a lower bound on the expected log: the terms that `presence_knots` leave out are subtracted as well."""
    first, last, start, o = factors[p, SLOT], factors[p + 1, SLOT], factors[p, ENTRY], field.ptr[p]
    head = rows.words[rows.word_ptr[p]]
    place = head - IN_SCOPE
    leak = NEG_INF if zero[start] > 0.0 else finite[start]
    on = 1.0 if head == ON else 0.0
    off = 1.0 - on
    least = -leak  # the strength that is certain
    for s in range(first, last):
        state, sign = slots[s, STATE], rows.words[rows.word_ptr[p] + 1 + s - first]
        if s == first + place:
            on, off = q[state + sign], q[state + 1 - sign]
        elif q[state + 1 - sign] == 0.0:
            t = inhibitor_of(factors, rows, p, s)
            least += math.inf if zero[t] > 0.0 else -finite[t]
    total = 0.0
    if off > 0.0:
        mean, zeros = expected_absence(o, leak, 0.0, field.sums)
        if zeros > 0.0:
            return NEG_INF
        total += off * mean
    if on > 0.0:
        mean, zeros = expected_presence(o, leak, 0.0, field.knots, field.weights, field.sums)
        if zeros > 0.0 or least == 0.0:
            return NEG_INF
        total += on * (mean - beyond_the_knots(o, leak, least, field.knots, field.sums))
    return total


@fast_kernel
def join_noisy_or(factors, finite, zero, rows, knots, sums, o, p, s, q, state, way):
    """Let slot s of factor p, whose states begin at `state` in q [X], join the sums at o or leave them."""
    first, word = factors[p, SLOT], rows.word_ptr[p]
    if s != first + rows.words[word] - IN_SCOPE:
        t = inhibitor_of(factors, rows, p, s)
        fails = NEG_INF if zero[t] > 0.0 else finite[t]
        sign = rows.words[word + 1 + s - first]
        join_cause(o, fails, q[state + sign], q[state + 1 - sign], knots, sums, way)
