# mypy: ignore-errors
"""Decoding of dual messages into one assignment, variable by variable, and single moves that improve it."""

import numpy as np

from equifactor.factors.conditional_kernels import conditional_values, literal_holds
from equifactor.factors.factor_messages import first_entry, step, with_agreeing_messages
from equifactor.factors.kind_rows import KIND
from equifactor.factors.structured_kernels import price_of_maxima, structured_messages
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, VAR, Layout, SlotsAround
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined

# Operations. Below this total, the messages of a structured factor are recomputed for every variable. Above it, they
# are recomputed only when a variable decides against them, and not at all once the factor has spent ten times this
# number. Halved or doubled in `mplp`: the same gap, CPU within 5 %.
CHEAP_DECODING = 1_000_000
# Slots of a factor above which a move marks all variables, not those of the factor: otherwise moves in long scopes take
# time quadratic in their length. Chosen by hand.
_LONG_SCOPE = 64


@fast_kernel
def decode_in_order(order, layout, around, kinds, log_phi, total, values, states, out, asked):
    """Give each variable in turn the state of the largest total plus conditional maxima of its factors.

    The conditional maximum of a factor at x is the best log_phi plus `values` among the entries that agree with x and
    with the states fixed before. A state that a factor forbids is taken only if all states are forbidden. Cost O(T k)
    for arity k.

    Args:
        order: the variables; several calls can decode one part of an order after another.
        layout: the index arrays of the graph.
        around: the slots around each variable that count.
        kinds: the fields of `KindRows`, or None where all factors are tables.
        log_phi: [T] the tables.
        total: [X] score of each state without its factors.
        values: [S] number that each slot adds to the tables. If there are kinds, -inf is written into it at the
            states that were not chosen.
        states: [V] -1 at the start, filled in place.
        out: [S] the messages of structured factors, filled in place.
        asked: [F] how often the messages of each structured factor were computed: 0 at the start.
    """
    layout, around = Layout(*layout), SlotsAround(*around)
    factors, slots, factor_of_slot = layout.factors, layout.slots, layout.factor_of_slot
    var_ptr, around_ptr, around_slots = layout.var_ptr, around.ptr, around.slots
    score, zeros = _scratch(var_ptr)
    best = np.empty_like(score)
    at = np.empty(max(1, layout.max_arity), np.int64)
    for i in order:
        d = var_ptr[i + 1] - var_ptr[i]
        chosen = 0
        for attempt in range(1 if kinds is None else 2):
            _begin(score, zeros, d)
            _add_row(score, zeros, total, var_ptr[i], 1, d)
            lost = False  # whether old messages of a factor prefer another state
            for r in range(around_ptr[i], around_ptr[i + 1]):
                s = around_slots[r]
                p = factor_of_slot[s]
                is_table = True
                if kinds is not None:
                    is_table = kinds[KIND][p] == 0
                    if not is_table:
                        m = slots[s, MSG]
                        if asked[p] == 0 or _may_ask(factors, kinds, p, asked[p], attempt):
                            structured_messages(factors, slots, log_phi, kinds, p, values, out)
                            asked[p] += 1
                        for x in range(d):
                            best[x] = out[m + x] + values[m + x]
                if is_table:
                    _conditional_maxima(factors, slots, log_phi, values, states, p, s, at, best)
                for x in range(d):  # written out: with a call of `_add_row` the kernel takes 1.5 times as long
                    score[x] += 0.0 if best[x] == NEG_INF else best[x]
                    zeros[x] += 1 if best[x] == NEG_INF else 0
            chosen = 0
            for x in range(1, d):
                if zeros[x] < zeros[chosen] or (zeros[x] == zeros[chosen] and score[x] > score[chosen]):
                    chosen = x
            if kinds is not None:
                for r in range(around_ptr[i], around_ptr[i + 1]):
                    s = around_slots[r]
                    if kinds[KIND][factor_of_slot[s]] != 0:
                        m = slots[s, MSG]
                        for x in range(d):
                            lost = lost or out[m + x] + values[m + x] > out[m + chosen] + values[m + chosen]
                if not lost:
                    break
        states[i] = chosen
        if kinds is not None:
            for r in range(around_ptr[i], around_ptr[i + 1]):
                s = around_slots[r]
                if kinds[KIND][factor_of_slot[s]] != 0:
                    m = slots[s, MSG]
                    values[m + chosen] = max(values[m + chosen], -1e300)  # forbidden, but it was chosen
                    for x in range(d):
                        if x != chosen:
                            values[m + x] = NEG_INF


@inlined
def _may_ask(factors, kinds, p, asked, attempt):
    """Return whether structured factor p computes its messages again; at the second attempt only long scopes do."""
    k = factors[p + 1, SLOT] - factors[p, SLOT]
    price = price_of_maxima(kinds[KIND][p], k)
    return price * k <= CHEAP_DECODING if attempt == 0 else price * asked <= 10 * CHEAP_DECODING < 10 * price * k


@fast_kernel
def polish(layout, around, kinds, log_phi, unary, states, held, marks, now, most):
    """Move single variables to a better state until no move improves the score (iterated conditional modes), in place.

    The number of zero factors comes before the sum. Rounds go through the variables by number, and a variable is looked
    at again only after a variable of one of its factors has moved. Returns whether it is done: otherwise the next call
    goes on from there.

    Args:
        layout: the index arrays of the graph.
        around: the slots around each variable that count.
        kinds: the fields of `KindRows`, or None where all factors are tables.
        log_phi: [T] the tables.
        unary: [X] score of each state by itself.
        states: [V] an assignment, changed in place.
        held: [F] the numbers of `literals_held`, changed in place; unused where all factors are tables.
        marks: [2, V] the move after which each variable was looked at last (-1 at the start), and the last move of a
            variable of its factors.
        now: the moves so far, the last move of a factor with a long scope, the next variable, and whether a variable
            has moved in this round; all 0 at the start.
        most: slots to visit in this call, at least one variable.
    """
    layout, around = Layout(*layout), SlotsAround(*around)
    factors, slots, factor_of_slot = layout.factors, layout.slots, layout.factor_of_slot
    var_ptr, around_ptr, around_slots = layout.var_ptr, around.ptr, around.slots
    looked, changed = marks[0], marks[1]
    score, zeros = _scratch(var_ptr)
    if kinds is not None:
        row = np.empty_like(score)
    visited = 0
    while True:
        for i in range(now[2], len(var_ptr) - 1):
            if looked[i] >= max(changed[i], now[1]):
                continue
            if visited >= most:
                now[2] = i
                return False
            visited += around_ptr[i + 1] - around_ptr[i] + 1
            looked[i] = now[0]
            d = var_ptr[i + 1] - var_ptr[i]
            _begin(score, zeros, d)
            _add_row(score, zeros, unary, var_ptr[i], 1, d)
            for r in range(around_ptr[i], around_ptr[i + 1]):
                s = around_slots[r]
                p = factor_of_slot[s]
                is_table = True
                if kinds is not None:
                    is_table = kinds[KIND][p] == 0
                    if not is_table:
                        conditional_values(factors, slots, log_phi, kinds, p, s, states, held, row)
                        _add_row(score, zeros, row, 0, 1, d)
                if is_table:
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
                slack = 1e-12 * (1.0 + abs(score[best]))  # equal states, up to rounding, would be exchanged forever
                if zeros[x] < zeros[best] or (zeros[x] == zeros[best] and score[x] > score[best] + slack):
                    best = x
            if best != states[i]:
                now[0] += 1
                now[3] = 1
                for r in range(around_ptr[i], around_ptr[i + 1]):
                    s = around_slots[r]
                    p = factor_of_slot[s]
                    if kinds is not None:
                        held[p] += literal_holds(factors, kinds, p, s, best)
                        held[p] -= literal_holds(factors, kinds, p, s, states[i])
                    if factors[p + 1, SLOT] - factors[p, SLOT] > _LONG_SCOPE:
                        now[1] = now[0]
                    else:
                        for k in range(factors[p, SLOT], factors[p + 1, SLOT]):
                            changed[slots[k, VAR]] = now[0]
                states[i] = best
        now[2] = 0
        if now[3] == 0:
            return True
        now[3] = 0


@inlined
def _scratch(var_ptr):
    """Return scratch for scores and numbers of zeros of the states of one variable."""
    widest = 1
    for i in range(len(var_ptr) - 1):
        widest = max(widest, var_ptr[i + 1] - var_ptr[i])
    return np.empty(widest), np.empty(widest, np.int64)


@inlined
def _begin(score, zeros, d):
    """Set the scores and the numbers of zeros of d states to 0."""
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
    """Fill best [d] over the states of slot s; fixed slots keep their state, the others are maximised over."""
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
