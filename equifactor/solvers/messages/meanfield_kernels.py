# mypy: ignore-errors
"""Coordinate ascent of naive mean field, one variable at a time.

Probabilities are `q [X]`. Tables are split into finite logs and zeros. An expected log is then finite, and the expected
number of violated factors is counted separately.
"""

import math
from typing import NamedTuple

import numpy as np

from equifactor.base.typing import FloatArray
from equifactor.factors.expectation_kernels import begin_sums, expect_structured, expected_log, join_slot
from equifactor.factors.factor_messages import first_entry, step
from equifactor.factors.kind_rows import KIND, NUM_TABLES
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE, Layout, SlotsAround
from equifactor.kernels.jit import fast_kernel, inlined


class SplitTables(NamedTuple):
    """Log tables with -inf replaced by 0, and where -inf was."""

    finite: FloatArray  # [T] logs, 0 in place of -inf
    zero: FloatArray  # [T] 1 where the table is zero, else 0


@fast_kernel
def sweep_mean_field(layout, around, tables, kinds, field, q, penalty, hard, first, last):
    """Set q_i, first <= i < last, to the softmax of its expected log minus `penalty` per expected violation.

    Return the largest change.

    With `hard`, states with any expected violation get probability 0. If all states have one, the state with the least
    gets probability 1. Variables take turns by number. Cost O(T k) for arity k. Structured factors cost as much as
    their messages, usually O(k sqrt(k)) for a count over k variables.

    Args:
        layout: the index arrays of the graph.
        around: all slots around each variable.
        tables: the potentials as `SplitTables`.
        kinds: the fields of `KindRows`, or None where all factors are tables.
        field: the fields of `FieldSums`, or None.
        q: [X] probabilities, updated in place.
        penalty: price of an expected violation.
        hard: whether violations are forbidden instead.
        first: the first variable; a sweep begins with 0.
        last: the variable after the last one.
    """
    layout, around, tables = Layout(*layout), SlotsAround(*around), SplitTables(*tables)
    factors, slots, factor_of_slot = layout.factors, layout.slots, layout.factor_of_slot
    var_ptr, around_ptr, around_slots = layout.var_ptr, around.ptr, around.slots
    finite, zero = tables
    widest = 1
    for i in range(first, last):
        widest = max(widest, var_ptr[i + 1] - var_ptr[i])
    gain, harm = np.empty(widest), np.empty(widest)
    at = np.empty(max(1, layout.max_arity), np.int64)
    change = 0.0
    if kinds is not None and first == 0:
        for p in range(kinds[NUM_TABLES], len(factors) - 1):
            begin_sums(factors, slots, finite, zero, kinds, field, p, q)
    for i in range(first, last):
        d = var_ptr[i + 1] - var_ptr[i]
        gain[:d] = 0.0
        harm[:d] = 0.0
        for r in range(around_ptr[i], around_ptr[i + 1]):
            s = around_slots[r]
            p = factor_of_slot[s]
            is_table = True
            if kinds is not None:
                is_table = kinds[KIND][p] == 0
                if not is_table:
                    join_slot(factors, slots, finite, zero, kinds, field, p, s, q, -1)
                    expect_structured(factors, slots, finite, zero, kinds, field, p, s, q, gain, harm)
            if is_table:
                _expect(factors, slots, finite, zero, p, s, q, at, gain, harm)
        least = harm[0]
        for x in range(1, d):
            least = min(least, harm[x])
        best = -math.inf
        for x in range(d):
            gain[x] -= 0.0 if hard else penalty * (harm[x] - least)
            if not hard or harm[x] == least:
                best = max(best, gain[x])
        mass = 0.0
        found = False
        for x in range(d):
            allowed = not hard or harm[x] == least
            if hard and least > 0.0:  # one state only, the first of equal ones
                allowed = allowed and gain[x] == best and not found
            found = found or allowed
            gain[x] = math.exp(gain[x] - best) if allowed else 0.0
            mass += gain[x]
        for x in range(d):
            new = gain[x] / mass
            change = max(change, abs(new - q[var_ptr[i] + x]))
            q[var_ptr[i] + x] = new
        if kinds is not None:
            for r in range(around_ptr[i], around_ptr[i + 1]):
                s = around_slots[r]
                p = factor_of_slot[s]
                if kinds[KIND][p] != 0:
                    join_slot(factors, slots, finite, zero, kinds, field, p, s, q, 1)
    return change


@inlined
def _expect(factors, slots, finite, zero, p, s, q, at, gain, harm):
    """Add to gain and harm the expected log and the expected violations of factor p, at each state of its slot s."""
    first = factors[p, SLOT]
    arity = factors[p + 1, SLOT] - first
    start = factors[p, ENTRY]
    if arity == 2:
        other = first if s > first else first + 1
        d, n = slots[s, CARD], slots[other, CARD]
        by_own = n if s == first else 1
        by_other = 1 if s == first else d
        for y in range(n):
            w = q[slots[other, STATE] + y]
            if w > 0.0:
                for x in range(d):
                    t = start + x * by_own + y * by_other
                    gain[x] += w * finite[t]
                    harm[x] += w * zero[t]
    else:
        first_entry(slots, first, arity, at)
        for t in range(start, factors[p + 1, ENTRY]):
            w = 1.0
            for j in range(arity):
                if first + j != s:
                    w *= q[slots[first + j, STATE] + at[j] - slots[first + j, MSG]]
            x = at[s - first] - slots[s, MSG]
            gain[x] += w * finite[t]
            harm[x] += w * zero[t]
            step(slots, first, arity, at)


@fast_kernel
def evidence_lower_bound(layout, tables, kinds, field, q):
    """Return expected logs plus entropies, a lower bound on ln Z; -inf if a zero entry has any probability."""
    layout, tables = Layout(*layout), SplitTables(*tables)
    factors, slots = layout.factors, layout.slots
    finite, zero = tables
    at = np.empty(max(1, layout.max_arity), np.int64)
    bound = 0.0
    num_tables = len(factors) - 1
    if kinds is not None:
        num_tables = kinds[NUM_TABLES]
        for p in range(num_tables, len(factors) - 1):
            expected = expected_log(factors, slots, finite, zero, kinds, field, p, q)
            if expected == -math.inf:
                return -math.inf
            bound += expected
    for p in range(num_tables):
        first = factors[p, SLOT]
        k = factors[p + 1, SLOT] - first
        first_entry(slots, first, k, at)
        for t in range(factors[p, ENTRY], factors[p + 1, ENTRY]):
            w = 1.0
            possible = True  # a product may underflow although none of its terms is zero
            for j in range(k):
                v = q[slots[first + j, STATE] + at[j] - slots[first + j, MSG]]
                w *= v
                possible = possible and v > 0.0
            if possible and zero[t] > 0.0:
                return -math.inf
            bound += w * finite[t]
            step(slots, first, k, at)
    for x in range(len(q)):
        if q[x] > 0.0:
            bound -= q[x] * math.log(q[x])
    return bound
