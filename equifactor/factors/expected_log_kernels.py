# mypy: ignore-errors
"""What mean field asks of a factor that is no table: its expected log at each state of a slot, and as a whole."""

import math

import numpy as np

from equifactor.factors.expectation_kernels import (
    FieldSums,
    begin_sums,
    expected_count,
    inhibitor_of,
    odds_of_failure,
    odds_of_parity,
)
from equifactor.factors.noisy_or.noisy_or_expectation_kernels import (
    TINY,
    beyond_the_knots,
    expected_absence,
    expected_presence,
)
from equifactor.factors.noisy_or.noisy_or_kernels import IN_SCOPE, ON
from equifactor.factors.structured_kernels import CLAUSE, COUNT, NOISY_OR, PARITY, POTTS, SPARSE, KindRows
from equifactor.graph.layout import CARD, ENTRY, SLOT, STATE
from equifactor.kernels.jit import fast_kernel

NEG_INF = -math.inf


@fast_kernel
def expect_structured(factors, slots, finite, zero, rows, field, p, s, q, gain, harm):
    """Add to gain and harm what factor p is expected to give and to violate, at each state of its slot s.

    Args:
        factors: [F+1, 2] as in `Layout`.
        slots: [E, 4] as in `Layout`.
        finite: [T] log values, 0 in place of -inf.
        zero: [T] 1 where a log value is -inf, else 0.
        rows: the fields of `KindRows`.
        field: the fields of `FieldSums`; slot s has left the sums.
        p: the factor, which is no table.
        s: the slot.
        q: [X] probabilities.
        gain: [d] expected logs.
        harm: [d] expected zeros.
    """
    rows, field = KindRows(*rows), FieldSums(*field)
    first, start, sums, o = factors[p, SLOT], factors[p, ENTRY], field.sums, field.ptr[p]
    kind, word = rows.kind[p], rows.word_ptr[p] + s - first
    if kind == PARITY:
        even, odd = odds_of_parity(sums, o)
        for x in range(2):
            gain[x] += even * finite[start + x] + odd * finite[start + 1 - x]
            harm[x] += even * zero[start + x] + odd * zero[start + 1 - x]
    elif kind == CLAUSE:
        fails, x = odds_of_failure(sums, o), 1 - rows.words[word]
        gain[x] += fails * finite[start]
        harm[x] += fails * zero[start]
    elif kind == COUNT:
        for x in range(2):
            mean, zeros = expected_count(finite, zero, field, o, start + (1 if x == rows.words[word] else 0))
            gain[x] += mean
            harm[x] += zeros
    elif kind == NOISY_OR:
        _expect_noisy_or(factors, slots, finite, zero, rows, field, p, s, q, gain, harm)
    elif kind == SPARSE:
        _expect_sparse(factors, slots, finite, zero, rows, p, s, q, gain, harm)
    else:
        _expect_pair(factors, slots, finite, zero, rows, p, s, q, gain, harm)


@fast_kernel
def _expect_noisy_or(factors, slots, finite, zero, rows, field, p, s, q, gain, harm):
    """The effect is known, or in the scope; a cause is asked about, or the effect."""
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
            harm[x] += max(TINY, off * zeros) if zeros > 0.0 else 0.0
        if on > 0.0:
            mean, zeros = expected_presence(o, leak, own, field.knots, field.weights, field.sums)
            gain[x] += on * mean
            harm[x] += max(TINY, on * zeros) if zeros > 0.0 else 0.0


@fast_kernel
def _expect_sparse(factors, slots, finite, zero, rows, p, s, q, gain, harm):
    """Configuration by configuration; the rest has the default value. s is -1 for all slots at once, in gain[0]."""
    first, start, word = factors[p, SLOT], factors[p, ENTRY], rows.word_ptr[p]
    k = factors[p + 1, SLOT] - first
    d = slots[s, CARD] if s >= 0 else 1
    listed, met = np.zeros(d), np.zeros(d)  # the probability of the listed ones, and how many are possible
    for n in range(factors[p + 1, ENTRY] - start - 1):
        w = 1.0
        possible = True
        for j in range(k):
            if first + j != s:
                v = q[slots[first + j, STATE] + rows.words[word + n * k + j]]
                w *= v
                if v == 0.0:
                    possible = False
                    break
        if possible:
            x = rows.words[word + n * k + s - first] if s >= 0 else 0
            w = max(TINY, w)
            listed[x] += w
            met[x] += 1.0
            gain[x] += w * finite[start + 1 + n]
            harm[x] += w * zero[start + 1 + n]
    number = 1.0  # of possible configurations, by products
    for j in range(k):
        if first + j != s:
            states = 0.0
            for x in range(slots[first + j, STATE], slots[first + j, STATE] + slots[first + j, CARD]):
                states += 1.0 if q[x] > 0.0 else 0.0
            number *= states
    for x in range(d):
        if met[x] < number:
            rest = max(TINY, 1.0 - listed[x])
            gain[x] += rest * finite[start]
            harm[x] += rest * zero[start]


@fast_kernel
def _expect_pair(factors, slots, finite, zero, rows, p, s, q, gain, harm):
    """Potts in O(d); truncated linear factors, which have no zeros, with sums from both sides in O(d) as well."""
    first, start, word = factors[p, SLOT], factors[p, ENTRY], rows.word_ptr[p]
    other = first if s > first else first + 1
    d, n, state = slots[s, CARD], slots[other, CARD], slots[other, STATE]
    own, others = word, word + d
    if s > first:
        own, others = word + n, word
    if rows.kind[p] != POTTS:
        _expect_linear(d, n, state, own, others, finite[start], start, finite, zero, rows, q, gain)
        return
    total, possible = 0.0, 0
    for y in range(n):
        total += q[state + y]
        possible += 1 if q[state + y] > 0.0 else 0
    for x in range(d):
        y = rows.places[own + x]
        same = q[state + y] if y >= 0 else 0.0
        differs = 0.0
        if possible > (1 if same > 0.0 else 0):
            differs = max(TINY, total - same)
        gain[x] += same * finite[start] + differs * finite[start + 1]
        harm[x] += same * zero[start] + differs * zero[start + 1]


@fast_kernel
def _expect_linear(d, n, state, own, others, slope, start, finite, zero, rows, q, gain):
    """sum_y q(y) max(slope |x - y|, limit): the labels within reach of x form a window that moves along with it."""
    reach = math.inf
    if zero[start + 1] == 0.0 and slope < 0.0:
        reach = finite[start + 1] / slope
    limit = finite[start + 1]
    mass, moment = np.zeros(n + 1), np.zeros(n + 1)  # of the first labels, in their order
    for r in range(n):
        y = rows.places[others + r]
        mass[r + 1] = mass[r] + q[state + y]
        moment[r + 1] = moment[r] + q[state + y] * (rows.words[others + y] - rows.words[others])
    low, mid, high = 0, 0, 0  # the window are numbers low to high - 1; those before mid have smaller labels
    for r in range(d):
        x = rows.places[own + r]
        label = rows.words[own + x]
        while low < n and label - rows.words[others + rows.places[others + low]] > reach:
            low += 1
        while mid < n and rows.words[others + rows.places[others + mid]] <= label:
            mid += 1
        while high < n and rows.words[others + rows.places[others + high]] - label <= reach:
            high += 1
        at = label - rows.words[others]
        below = at * (mass[mid] - mass[low]) - (moment[mid] - moment[low])
        above = (moment[high] - moment[mid]) - at * (mass[high] - mass[mid])
        gain[x] += slope * (below + above) + limit * (mass[n] - (mass[high] - mass[low]))


@fast_kernel
def expected_log(factors, slots, finite, zero, rows, field, p, q):
    """The expected log of factor p, for noisy-ors a number that is not above it; -inf where a zero is possible."""
    rows, field = KindRows(*rows), FieldSums(*field)
    first, start, sums, o = factors[p, SLOT], factors[p, ENTRY], field.sums, field.ptr[p]
    kind = rows.kind[p]
    begin_sums(factors, slots, finite, zero, rows, field, p, q)
    mean, zeros = 0.0, 0.0
    if kind == PARITY:
        even, odd = odds_of_parity(sums, o)
        mean = even * finite[start] + odd * finite[start + 1]
        zeros = even * zero[start] + odd * zero[start + 1]
    elif kind == CLAUSE:
        fails = odds_of_failure(sums, o)
        mean, zeros = fails * finite[start], fails * zero[start]
    elif kind == COUNT:
        mean, zeros = expected_count(finite, zero, field, o, start)
    elif kind == NOISY_OR:
        return _expected_log_of_noisy_or(factors, slots, finite, zero, rows, field, p, q)
    elif kind == SPARSE:
        gain, harm = np.zeros(1), np.zeros(1)
        _expect_sparse(factors, slots, finite, zero, rows, p, -1, q, gain, harm)
        mean, zeros = gain[0], harm[0]
    else:
        d, state = slots[first, CARD], slots[first, STATE]
        gain, harm = np.zeros(d), np.zeros(d)
        _expect_pair(factors, slots, finite, zero, rows, p, first, q, gain, harm)
        for x in range(d):
            mean += q[state + x] * gain[x]
            zeros += max(TINY, q[state + x] * harm[x]) if q[state + x] > 0.0 and harm[x] > 0.0 else 0.0
    return NEG_INF if zeros > 0.0 else mean


@fast_kernel
def _expected_log_of_noisy_or(factors, slots, finite, zero, rows, field, p, q):
    """A lower bound: what `presence_knots` leave out is taken off as well."""
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
