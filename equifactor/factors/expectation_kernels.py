# mypy: ignore-errors
"""Expected logs of factors of any kind under independent variables, with the state of one variable given.

A factor keeps sums over its slots, which a slot can leave and join: the distribution of a number of literals, the logs
of a product. So the answer for one slot costs O(1); for a count it costs the likely numbers. Sums begin anew with each
sweep, so that rounding does not pile up.

What is expected comes in two parts, as for tables: the mean of the logs above zero, and the probability of zeros. That
is exactly 0 where no zero is possible, which is read off what states are possible and not off rounded numbers.
"""

import math
from typing import NamedTuple

import numpy as np

from equifactor.base.typing import FloatArray, IntArray
from equifactor.factors.noisy_or.noisy_or_expectation_kernels import FIRST, TINY, join_cause, presence_knots
from equifactor.factors.noisy_or.noisy_or_kernels import IN_SCOPE
from equifactor.factors.structured_kernels import CLAUSE, COUNT, NOISY_OR, PARITY, KindRows
from equifactor.graph.layout import ENTRY, SLOT, STATE, KindArrays, Layout
from equifactor.kernels.jit import fast_kernel

NEG_INF = -math.inf
# The sums of a parity are those of the product of q(0) - q(1): its log, its negative terms, its zeros, and how many
# variables may have either state. Those of a clause: the log of the product of the probabilities that a literal fails,
# its zeros. Those of a count: literals that hold for certain, that may hold, the lowest and the highest number that is
# not negligible, and the probability of each number.
LOG, ZEROS, NEGATIVE, OPEN = 0, 1, 2, 3
CERTAIN, POSSIBLE, LOW, HIGH, NUMBERS = 0, 1, 2, 3, 4
_NEGLIGIBLE = 1e-60  # numbers at both ends that are less likely are left out: most of those of long scopes


class FieldSums(NamedTuple):
    """The sums of all factors that keep some."""

    ptr: IntArray  # [F+1] where those of each factor begin
    sums: FloatArray
    zeros_before: IntArray  # [T+1] how many log values before each are -inf
    knots: FloatArray  # see `noisy_or_expectation_kernels`
    weights: FloatArray


def field_sums(layout: Layout, kinds: KindArrays, log_phi: FloatArray) -> FieldSums:
    """Room for the sums of a graph of log values log_phi [T]."""
    knots, weights = presence_knots()
    arity = np.diff(layout.factors[:, SLOT])
    size = np.zeros(len(arity), np.int64)
    size[kinds.kind == PARITY] = OPEN + 1
    size[kinds.kind == CLAUSE] = ZEROS + 1
    size[kinds.kind == NOISY_OR] = FIRST + 2 * len(knots)
    size = np.where(kinds.kind == COUNT, NUMBERS + arity + 1, size)
    ptr = np.concatenate(([0], np.cumsum(size)))
    zeros_before = np.concatenate(([0], np.cumsum(np.isneginf(log_phi))))
    return FieldSums(ptr, np.zeros(ptr[-1]), zeros_before, knots, weights)


@fast_kernel
def begin_sums(factors, slots, finite, zero, rows, field, p, q):
    """Compute the sums of factor p afresh."""
    ptr, sums = field[0], field[1]
    for n in range(ptr[p], ptr[p + 1]):
        sums[n] = 0.0
    if rows[0][p] == COUNT:
        sums[ptr[p] + NUMBERS] = 1.0
    for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
        join_slot(factors, slots, finite, zero, rows, field, p, s, q, 1)


@fast_kernel
def join_slot(factors, slots, finite, zero, rows, field, p, s, q, way):
    """Let slot s of factor p join the sums (way 1) or leave them (way -1), with its probabilities in q [X]."""
    rows, field = KindRows(*rows), FieldSums(*field)
    kind, first, sums, o = rows.kind[p], factors[p, SLOT], field.sums, field.ptr[p]
    state, word = slots[s, STATE], rows.word_ptr[p] + s - first
    if kind == PARITY:
        even, odd = q[state], q[state + 1]
        if even == odd:
            sums[o + ZEROS] += way
        else:
            sums[o + LOG] += way * math.log(abs(even - odd))
        sums[o + NEGATIVE] += way if odd > even else 0
        sums[o + OPEN] += way if even > 0.0 and odd > 0.0 else 0
    elif kind == CLAUSE:
        fails = q[state + 1 - rows.words[word]]
        if fails == 0.0:
            sums[o + ZEROS] += way
        else:
            sums[o + LOG] += way * math.log(fails)
    elif kind == COUNT:
        yes, no = q[state + rows.words[word]], q[state + 1 - rows.words[word]]
        sums[o + CERTAIN] += way if no == 0.0 else 0
        sums[o + POSSIBLE] += way if yes > 0.0 else 0
        if way > 0:
            _convolve(sums, o, yes, no)
        else:
            _deconvolve(sums, o, yes, no)
    elif kind == NOISY_OR:
        head = rows.words[rows.word_ptr[p]]
        if s != first + head - IN_SCOPE:
            t = inhibitor_of(factors, rows, p, s)
            fails = NEG_INF if zero[t] > 0.0 else finite[t]
            sign = rows.words[word + 1]
            join_cause(o, fails, q[state + sign], q[state + 1 - sign], field.knots, sums, way)


@fast_kernel
def inhibitor_of(factors, rows, p, s):
    """Which log value is the inhibitor of the cause at slot s of a noisy-or."""
    place = rows.words[rows.word_ptr[p]] - IN_SCOPE
    j = s - factors[p, SLOT]
    return factors[p, ENTRY] + 1 + j - (1 if 0 <= place < j else 0)


@fast_kernel
def _convolve(sums, o, yes, no):
    """The distribution of the number of literals with one more."""
    low, high, n = int(sums[o + LOW]), int(sums[o + HIGH]), o + NUMBERS
    sums[n + high + 1] = sums[n + high] * yes
    for c in range(high, low, -1):
        sums[n + c] = sums[n + c] * no + sums[n + c - 1] * yes
    sums[n + low] *= no
    _cut_ends(sums, o, low, high + 1)


@fast_kernel
def _deconvolve(sums, o, yes, no):
    """The distribution of the number of literals with one less.

    Errors shrink along the recurrence from the end at which the likelier outcome counts for nothing.
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
    """Leave out what is impossible or negligible at both ends."""
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
def expected_count(finite, zero, field, o, t):
    """The expected log value, zeros left out, and their probability; t is the value of the number 0.

    Numbers beyond what is possible do not count, however rounding has left their probabilities.
    """
    field = FieldSums(*field)
    sums = field.sums
    least, most = int(sums[o + CERTAIN] + 0.5), int(sums[o + POSSIBLE] + 0.5)
    mean, zeros = 0.0, 0.0
    for c in range(max(least, int(sums[o + LOW])), min(most, int(sums[o + HIGH])) + 1):
        mean += sums[o + NUMBERS + c] * finite[t + c]
        zeros += sums[o + NUMBERS + c] * zero[t + c]
    if field.zeros_before[t + most + 1] == field.zeros_before[t + least]:
        return mean, 0.0
    return mean, max(TINY, zeros)


@fast_kernel
def odds_of_parity(sums, o):
    """The probabilities that the number of ones of those that joined is even, and odd."""
    is_odd = int(sums[o + NEGATIVE] + 0.5) % 2 == 1
    if sums[o + OPEN] < 0.5:
        return (0.0, 1.0) if is_odd else (1.0, 0.0)
    product = math.exp(min(0.0, sums[o + LOG])) if sums[o + ZEROS] < 0.5 else 0.0
    product = -product if is_odd else product
    return max(TINY, 0.5 + 0.5 * product), max(TINY, 0.5 - 0.5 * product)


@fast_kernel
def odds_of_failure(sums, o):
    """The probability that no literal of those that joined holds."""
    return max(TINY, math.exp(min(0.0, sums[o + LOG]))) if sums[o + ZEROS] < 0.5 else 0.0
