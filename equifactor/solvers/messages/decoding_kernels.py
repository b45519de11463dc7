# mypy: ignore-errors
"""From messages to one assignment: in the manner of a stack of factors, or variable by variable."""

import math

import numpy as np

from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, VAR
from equifactor.numerics.factor_messages import step
from equifactor.numerics.jit import fast_kernel, inlined

NEG_INF = -math.inf


@fast_kernel
def find_maximum(order, factors, slots, slot_order, neighbour_ptr, neighbours, log_phi, values, states):
    """Fix whole factors at their best entry that agrees with what is fixed, spreading along shared variables.

    The belief of an entry is log_phi plus the edge-state `values [S]` of its slots. Factors wait on a stack; an empty
    stack takes the next unvisited factor of `order`; ties go to the first entry. Where every entry that agrees has
    belief -inf, the free variables of the factor stay free for a later one. `slot_order [E]` lists the slots of each
    factor in the order in which its variables push their factors.

    `states [V]` holds -1 for free variables and is filled in place; what no factor decides stays -1. Returns the
    number of factors without an entry of positive belief. Cost O(T).
    """
    num_factors = len(factors) - 1
    visited = np.zeros(num_factors, np.bool_)
    stack = np.empty(num_factors, np.int64)
    widest = 1
    for p in range(num_factors):
        widest = max(widest, factors[p + 1, SLOT] - factors[p, SLOT])
    at = np.empty(widest, np.int64)
    best_at = np.empty(widest, np.int64)
    failed = 0
    for seed in order:
        if visited[seed]:
            continue
        visited[seed] = True
        stack[0] = seed
        height = 1
        while height > 0:
            height -= 1
            p = stack[height]
            first, last = factors[p, SLOT], factors[p + 1, SLOT]
            if not _best_entry(factors, slots, log_phi, values, states, p, at, best_at):
                failed += 1
                continue
            for n in range(first, last):
                s = slot_order[n]
                i = slots[s, VAR]
                if states[i] >= 0:
                    continue
                states[i] = best_at[s - first] - slots[s, MSG]
                for r in range(neighbour_ptr[i], neighbour_ptr[i + 1]):
                    b = neighbours[r]
                    if not visited[b]:
                        visited[b] = True
                        stack[height] = b
                        height += 1
    return failed


@inlined
def _best_entry(factors, slots, log_phi, values, states, p, at, best_at):
    """Digits of the best entry that agrees with the fixed states into `best_at`; whether its belief is positive."""
    first = factors[p, SLOT]
    arity = factors[p + 1, SLOT] - first
    for j in range(arity):
        at[j] = slots[first + j, MSG]
    best = NEG_INF
    for t in range(factors[p, ENTRY], factors[p + 1, ENTRY]):
        value = log_phi[t]
        for j in range(arity):
            fixed = states[slots[first + j, VAR]]
            value += NEG_INF if fixed >= 0 and at[j] - slots[first + j, MSG] != fixed else values[at[j]]
        if value > best:
            best = value
            for j in range(arity):
                best_at[j] = at[j]
        step(slots, first, arity, at)
    return best > NEG_INF


@fast_kernel
def decode_in_order(
    order, slot_ptr, slots_of_var, factors, factor_of_slot, slots, log_phi, var_ptr, total, values, states
):  # fmt: skip
    """Variable after variable, the state of the largest total plus conditional maxima of its factors.

    The conditional maximum of a factor at x is the best log_phi plus `values [S]` among the entries that agree with x
    and with the states fixed before. A state that some factor forbids is taken only if all are. `states [V]` starts at
    -1 and is filled. Cost O(T k) for arity k.
    """
    widest = 1
    for i in range(len(var_ptr) - 1):
        widest = max(widest, var_ptr[i + 1] - var_ptr[i])
    score = np.empty(widest)
    zeros = np.empty(widest, np.int64)
    best = np.empty(widest)
    arity = 1
    for p in range(len(factors) - 1):
        arity = max(arity, factors[p + 1, SLOT] - factors[p, SLOT])
    at = np.empty(arity, np.int64)
    for i in order:
        d = var_ptr[i + 1] - var_ptr[i]
        for x in range(d):
            t = total[var_ptr[i] + x]
            score[x] = 0.0 if t == NEG_INF else t
            zeros[x] = 1 if t == NEG_INF else 0
        for r in range(slot_ptr[i], slot_ptr[i + 1]):
            s = slots_of_var[r]
            _conditional_maxima(factors, slots, log_phi, values, states, factor_of_slot[s], s, at, best)
            for x in range(d):
                score[x] += 0.0 if best[x] == NEG_INF else best[x]
                zeros[x] += 1 if best[x] == NEG_INF else 0
        chosen = 0
        for x in range(1, d):
            if zeros[x] < zeros[chosen] or (zeros[x] == zeros[chosen] and score[x] > score[chosen]):
                chosen = x
        states[i] = chosen


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
        for j in range(arity):
            at[j] = slots[first + j, MSG]
        for t in range(start, factors[p + 1, ENTRY]):
            value = log_phi[t]
            for j in range(arity):
                fixed = states[slots[first + j, VAR]]
                value += NEG_INF if fixed >= 0 and at[j] - slots[first + j, MSG] != fixed else values[at[j]]
            x = at[s - first] - m
            best[x] = max(best[x], value)
            step(slots, first, arity, at)


@fast_kernel
def polish(order, slot_ptr, slots_of_var, factors, factor_of_slot, slots, log_phi, var_ptr, unary, states):
    """Move single variables to a better state until none can improve (iterated conditional modes), in place.

    Fewer zero factors come before a higher sum. Returns the number of moves. Cost per round: the factors' degrees.
    """
    widest = 1
    for i in range(len(var_ptr) - 1):
        widest = max(widest, var_ptr[i + 1] - var_ptr[i])
    score = np.empty(widest)
    zeros = np.empty(widest, np.int64)
    moves = 0
    moved = True
    while moved:
        moved = False
        for i in order:
            d = var_ptr[i + 1] - var_ptr[i]
            for x in range(d):
                t = unary[var_ptr[i] + x]
                score[x] = 0.0 if t == NEG_INF else t
                zeros[x] = 1 if t == NEG_INF else 0
            for r in range(slot_ptr[i], slot_ptr[i + 1]):
                s = slots_of_var[r]
                p = factor_of_slot[s]
                entry, stride, own = factors[p, ENTRY], 1, 1
                for k in range(factors[p + 1, SLOT] - 1, factors[p, SLOT] - 1, -1):
                    if k == s:
                        own = stride
                    else:
                        entry += stride * states[slots[k, VAR]]
                    stride *= slots[k, CARD]
                for x in range(d):
                    t = log_phi[entry + x * own]
                    score[x] += 0.0 if t == NEG_INF else t
                    zeros[x] += 1 if t == NEG_INF else 0
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
