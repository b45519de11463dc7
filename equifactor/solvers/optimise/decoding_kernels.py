# mypy: ignore-errors
"""From messages of a dual to one assignment, variable by variable, and single moves that improve it."""

import numpy as np

from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, VAR, Layout, SlotsAround
from equifactor.numerics.factor_messages import NEG_INF, first_entry, step, with_agreeing_messages
from equifactor.numerics.jit import fast_kernel, inlined


@fast_kernel
def decode_in_order(order, layout, around, log_phi, total, values, states):
    """Variable after variable, the state of the largest total plus conditional maxima of its factors.

    The conditional maximum of a factor at x is the best log_phi plus `values` among the entries that agree with x and
    with the states fixed before. A state that some factor forbids is taken only if all are. Cost O(T k) for arity k.

    Args:
        order: [V] the variables.
        layout: the index arrays of the graph.
        around: the slots around each variable that count.
        log_phi: [T] the tables.
        total: [X] what each state scores before any factor.
        values: [S] what is added to the tables for each slot.
        states: [V] -1 at the start, filled in place.
    """
    layout, around = Layout(*layout), SlotsAround(*around)
    factors, slots, factor_of_slot = layout.factors, layout.slots, layout.factor_of_slot
    var_ptr, around_ptr, around_slots = layout.var_ptr, around.ptr, around.slots
    score, zeros = _scratch(var_ptr)
    best = np.empty_like(score)
    at = np.empty(max(1, layout.max_arity), np.int64)
    for i in order:
        d = var_ptr[i + 1] - var_ptr[i]
        _begin(score, zeros, d)
        _add_row(score, zeros, total, var_ptr[i], 1, d)
        for r in range(around_ptr[i], around_ptr[i + 1]):
            s = around_slots[r]
            _conditional_maxima(factors, slots, log_phi, values, states, factor_of_slot[s], s, at, best)
            for x in range(d):  # Written out: as a call of `_add_row` this made the kernel take half as long again.
                score[x] += 0.0 if best[x] == NEG_INF else best[x]
                zeros[x] += 1 if best[x] == NEG_INF else 0
        chosen = 0
        for x in range(1, d):
            if zeros[x] < zeros[chosen] or (zeros[x] == zeros[chosen] and score[x] > score[chosen]):
                chosen = x
        states[i] = chosen


@fast_kernel
def polish(layout, around, log_phi, unary, states):
    """Move single variables to a better state until none can improve (iterated conditional modes), in place.

    Fewer zero factors come before a higher sum. Returns the number of moves. Cost per round: the factors' degrees.

    Args:
        layout: the index arrays of the graph.
        around: the slots around each variable that count.
        log_phi: [T] the tables.
        unary: [X] what each state scores by itself.
        states: [V] an assignment, changed in place.
    """
    layout, around = Layout(*layout), SlotsAround(*around)
    factors, slots, factor_of_slot = layout.factors, layout.slots, layout.factor_of_slot
    var_ptr, around_ptr, around_slots = layout.var_ptr, around.ptr, around.slots
    score, zeros = _scratch(var_ptr)
    moves = 0
    moved = True
    while moved:
        moved = False
        for i in range(len(var_ptr) - 1):
            d = var_ptr[i + 1] - var_ptr[i]
            _begin(score, zeros, d)
            _add_row(score, zeros, unary, var_ptr[i], 1, d)
            for r in range(around_ptr[i], around_ptr[i + 1]):
                s = around_slots[r]
                p = factor_of_slot[s]
                entry, stride, own = factors[p, ENTRY], 1, 1
                for k in range(factors[p + 1, SLOT] - 1, factors[p, SLOT] - 1, -1):
                    if k == s:
                        own = stride
                    else:
                        entry += stride * states[slots[k, VAR]]
                    stride *= slots[k, CARD]
                _add_row(score, zeros, log_phi, entry, own, d)
            best = states[i]
            for x in range(d):
                slack = 1e-12 * (1.0 + abs(score[best]))  # equal states, up to rounding, would be exchanged for ever
                if zeros[x] < zeros[best] or (zeros[x] == zeros[best] and score[x] > score[best] + slack):
                    best = x
            if best != states[i]:
                states[i] = best
                moves += 1
                moved = True
    return moves


@inlined
def _scratch(var_ptr):
    """Scores and numbers of zeros for the states of one variable."""
    widest = 1
    for i in range(len(var_ptr) - 1):
        widest = max(widest, var_ptr[i + 1] - var_ptr[i])
    return np.empty(widest), np.empty(widest, np.int64)


@inlined
def _begin(score, zeros, d):
    """Set the scores of d states to nothing."""
    for x in range(d):
        score[x] = 0.0
        zeros[x] = 0


@inlined
def _add_row(score, zeros, values, first, stride, d):
    """Add one value to the score of each of d states; a value of -inf is counted instead."""
    for x in range(d):
        v = values[first + x * stride]
        score[x] += 0.0 if v == NEG_INF else v
        zeros[x] += 1 if v == NEG_INF else 0


@inlined
def _conditional_maxima(factors, slots, log_phi, values, states, p, s, at, best):
    """best [d] over the states of slot s; other slots that are fixed keep their state, the rest is maximised."""
    first, last = factors[p, SLOT], factors[p + 1, SLOT]
    m, d = slots[s, MSG], slots[s, CARD]
    for x in range(d):
        best[x] = NEG_INF
    start = factors[p, ENTRY]
    if last - first == 2:
        other = first if s > first else first + 1
        fixed = states[slots[other, VAR]]
        low = fixed if fixed >= 0 else 0
        high = fixed + 1 if fixed >= 0 else slots[other, CARD]
        by_own = slots[other, CARD] if s == first else 1
        by_other = 1 if s == first else d
        for y in range(low, high):
            v = values[slots[other, MSG] + y]
            for x in range(d):
                best[x] = max(best[x], log_phi[start + x * by_own + y * by_other] + v)
        for x in range(d):
            best[x] += values[m + x]
    else:
        arity = last - first
        first_entry(slots, first, arity, at)
        for t in range(start, factors[p + 1, ENTRY]):
            value = with_agreeing_messages(log_phi[t], values, at, slots, first, arity, states)
            x = at[s - first] - m
            best[x] = max(best[x], value)
            step(slots, first, arity, at)
