# mypy: ignore-errors
"""Coordinate ascent of naive mean field, one variable at a time.

Probabilities `q [X]`. Tables are split into `finite [T]`, the logs with 0 in place of -inf, and `zero [T]`, 1 where the
table is zero: an expected log is then finite, and the expected number of violated factors stands beside it.
"""

import math

import numpy as np

from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE
from equifactor.numerics.factor_messages import step
from equifactor.numerics.jit import fast_kernel, inlined


@fast_kernel
def sweep_mean_field(
    order, slot_ptr, slots_of_var, factors, factor_of_slot, slots, finite, zero, var_ptr, q, penalty, hard
):  # fmt: skip
    """q_i = softmax of the expected log of its factors minus `penalty` per expected violation; returns the change.

    `hard`: states with any expected violation get probability 0, unless all have one; then the state with the least
    gets probability 1. Cost O(T k) for arity k.
    """
    widest, arity = 1, 1
    for i in range(len(var_ptr) - 1):
        widest = max(widest, var_ptr[i + 1] - var_ptr[i])
    for p in range(len(factors) - 1):
        arity = max(arity, factors[p + 1, SLOT] - factors[p, SLOT])
    gain, harm = np.empty(widest), np.empty(widest)
    at = np.empty(arity, np.int64)
    change = 0.0
    for i in order:
        d = var_ptr[i + 1] - var_ptr[i]
        gain[:d] = 0.0
        harm[:d] = 0.0
        for r in range(slot_ptr[i], slot_ptr[i + 1]):
            s = slots_of_var[r]
            _expect(factors, slots, finite, zero, factor_of_slot[s], s, q, at, gain, harm)
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
            if hard and least > 0.0:  # one state only, the first among equals
                allowed = allowed and gain[x] == best and not found
            found = found or allowed
            gain[x] = math.exp(gain[x] - best) if allowed else 0.0
            mass += gain[x]
        for x in range(d):
            new = gain[x] / mass
            change = max(change, abs(new - q[var_ptr[i] + x]))
            q[var_ptr[i] + x] = new
    return change


@inlined
def _expect(factors, slots, finite, zero, p, s, q, at, gain, harm):
    """Add to gain and harm the expectations of one factor at each state of slot s."""
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
        for j in range(arity):
            at[j] = slots[first + j, MSG]
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
def evidence_lower_bound(factors, slots, finite, zero, q):
    """Sum of expected logs plus entropies, a lower bound on ln Z; -inf where a zero entry has any probability."""
    arity = 1
    for p in range(len(factors) - 1):
        arity = max(arity, factors[p + 1, SLOT] - factors[p, SLOT])
    at = np.empty(arity, np.int64)
    bound = 0.0
    for p in range(len(factors) - 1):
        first = factors[p, SLOT]
        k = factors[p + 1, SLOT] - first
        for j in range(k):
            at[j] = slots[first + j, MSG]
        for t in range(factors[p, ENTRY], factors[p + 1, ENTRY]):
            w = 1.0
            possible = True  # a product may underflow where no factor of it is zero
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
