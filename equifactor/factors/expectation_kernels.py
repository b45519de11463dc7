# mypy: ignore-errors
"""Expected logs of factors of any kind under independent variables, as mean field needs them.

A factor keeps sums over its slots, such as the distribution of a number of literals or the log of a product. A slot can
leave these sums and join them again. So an expectation at one slot costs O(1), or for a count as many steps as there
are likely numbers. Every sweep computes the sums again, so that rounding does not accumulate.

An expectation has two parts, as for tables: the mean of the logs above zero, and the probability of zeros. This
probability is exactly 0 where no zero is possible, which follows from the possible states and not from rounded numbers.
"""

from typing import NamedTuple

import numpy as np

from equifactor.base.typing import FloatArray, IntArray
from equifactor.factors.clause import clause_kernels
from equifactor.factors.clause.clause_kernels import join_clause, odds_of_failure
from equifactor.factors.count.count_kernels import NUMBERS, expected_count, join_count
from equifactor.factors.kind_numbers import CLAUSE, COUNT, NOISY_OR, PARITY, POTTS, SPARSE
from equifactor.factors.kind_rows import KIND, KindRows
from equifactor.factors.noisy_or.noisy_or_expectation_kernels import (
    FIRST,
    expect_noisy_or,
    expected_log_of_noisy_or,
    join_noisy_or,
    presence_knots,
)
from equifactor.factors.pair_kernels import ABOVE_ZERO
from equifactor.factors.parity import parity_kernels
from equifactor.factors.parity.parity_kernels import join_parity, odds_of_parity
from equifactor.factors.potts.potts_kernels import expect_potts
from equifactor.factors.sparse.sparse_kernels import expect_sparse
from equifactor.factors.truncated_linear.truncated_linear_kernels import expect_truncated_linear
from equifactor.graph.layout import CARD, ENTRY, SLOT, STATE, KindArrays, Layout
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel


class FieldSums(NamedTuple):
    """The sums of all factors that keep some."""

    ptr: IntArray  # [F+1] where the sums of each factor begin
    sums: FloatArray
    zeros_before: IntArray  # [T+1] how many log values before each are -inf
    knots: FloatArray  # see `noisy_or_expectation_kernels`
    weights: FloatArray


def field_sums(layout: Layout, kinds: KindArrays, log_phi: FloatArray) -> FieldSums:
    """Return room for the sums of a graph of log values log_phi [T]."""
    knots, weights = presence_knots()
    arity = np.diff(layout.factors[:, SLOT])
    size = np.zeros(len(arity), np.int64)
    size[kinds.kind == PARITY] = parity_kernels.NUM_SUMS
    size[kinds.kind == CLAUSE] = clause_kernels.NUM_SUMS
    size[kinds.kind == NOISY_OR] = FIRST + 2 * len(knots)
    size = np.where(kinds.kind == COUNT, NUMBERS + arity + 1, size)
    ptr = np.concatenate(([0], np.cumsum(size)))
    zeros_before = np.concatenate(([0], np.cumsum(np.isneginf(log_phi))))
    return FieldSums(ptr, np.zeros(ptr[-1]), zeros_before, knots, weights)


@fast_kernel
def begin_sums(factors, slots, finite, zero, rows, field, p, q):
    """Compute the sums of factor p."""
    ptr, sums = field[0], field[1]
    for n in range(ptr[p], ptr[p + 1]):
        sums[n] = 0.0
    if rows[KIND][p] == COUNT:
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
        join_parity(sums, o, q[state], q[state + 1], way)
    elif kind == CLAUSE:
        join_clause(sums, o, q[state + 1 - rows.words[word]], way)
    elif kind == COUNT:
        join_count(sums, o, q[state + rows.words[word]], q[state + 1 - rows.words[word]], way)
    elif kind == NOISY_OR:
        join_noisy_or(factors, finite, zero, rows, field.knots, sums, o, p, s, q, state, way)


@fast_kernel
def expect_structured(factors, slots, finite, zero, rows, field, p, s, q, gain, harm):
    """Add the expected logs of factor p to gain and its expected zeros to harm, at each state of its slot s.

    Args:
        factors: [F+1, 2] as in `Layout`.
        slots: [E, 4] as in `Layout`.
        finite: [T] log values, 0 in place of -inf.
        zero: [T] 1 where a log value is -inf, else 0.
        rows: the fields of `KindRows`.
        field: the fields of `FieldSums`; slot s has left the sums.
        p: the factor, which is structured.
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
            mean, zeros = expected_count(
                finite, zero, sums, field.zeros_before, o, start + (1 if x == rows.words[word] else 0)
            )
            gain[x] += mean
            harm[x] += zeros
    elif kind == NOISY_OR:
        expect_noisy_or(factors, slots, finite, zero, rows, field, p, s, q, gain, harm)
    elif kind == SPARSE:
        expect_sparse(factors, slots, finite, zero, rows, p, s, q, gain, harm)
    else:
        _expect_pair(factors, slots, finite, zero, rows, p, s, q, gain, harm)


@fast_kernel
def _expect_pair(factors, slots, finite, zero, rows, p, s, q, gain, harm):
    """Add the expected logs and zeros of a Potts or truncated linear factor; the latter has no zeros."""
    first, start, word = factors[p, SLOT], factors[p, ENTRY], rows.word_ptr[p]
    other = first if s > first else first + 1
    d, n, state = slots[s, CARD], slots[other, CARD], slots[other, STATE]
    own, others = word, word + d
    if s > first:
        own, others = word + n, word
    if rows.kind[p] == POTTS:
        expect_potts(d, n, state, own, rows.places, start, finite, zero, q, gain, harm)
    else:
        expect_truncated_linear(d, n, state, own, others, rows.words, rows.places, start, finite, zero, q, gain)


@fast_kernel
def expected_log(factors, slots, finite, zero, rows, field, p, q):
    """Return the expected log of factor p, for noisy-ors a lower bound on it; -inf if a zero is possible."""
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
        mean, zeros = expected_count(finite, zero, sums, field.zeros_before, o, start)
    elif kind == NOISY_OR:
        return expected_log_of_noisy_or(factors, slots, finite, zero, rows, field, p, q)
    elif kind == SPARSE:
        gain, harm = np.zeros(1), np.zeros(1)
        expect_sparse(factors, slots, finite, zero, rows, p, -1, q, gain, harm)
        mean, zeros = gain[0], harm[0]
    else:
        d, state = slots[first, CARD], slots[first, STATE]
        gain, harm = np.zeros(d), np.zeros(d)
        _expect_pair(factors, slots, finite, zero, rows, p, first, q, gain, harm)
        for x in range(d):
            mean += q[state + x] * gain[x]
            zeros += max(ABOVE_ZERO, q[state + x] * harm[x]) if q[state + x] > 0.0 and harm[x] > 0.0 else 0.0
    return NEG_INF if zeros > 0.0 else mean
