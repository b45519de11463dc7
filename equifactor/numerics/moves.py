# mypy: ignore-errors
"""Single-variable moves with incremental scores: the cost of a move is the factors it touches.

The arrays are those of `equifactor.graph.search_model.MoveArrays`. The state of a search is `x [V]` (assignment),
`local [X]`
(sum of the factors around a variable at each of its states, the rest fixed) and `at [K]` (the current entry of each
factor of arity above two). All values are finite: zeros are penalties here.
"""

import numpy as np

from equifactor.numerics.fastmath import get, put
from equifactor.numerics.jit import fast_kernel, inlined

TO, BASE = 0, 1  # columns of arcs: neighbour, start of the pair's table
FACTOR, VARIABLE, STRIDE = 0, 1, 2  # columns of slots
SLOT, ENTRY = 0, 1  # columns of factors


@fast_kernel
def add_pairs(log_phi, entry, card_i, card_j, forward, backward, pair):
    """Add the table of every factor of two variables to the tables of its two arcs."""
    for p in range(len(entry)):
        for a in range(card_i[p]):
            for b in range(card_j[p]):
                value = log_phi[entry[p] + a * card_j[p] + b]
                pair[forward[p] + a * card_j[p] + b] += value
                pair[backward[p] + b * card_i[p] + a] += value


@inlined
def rebuild_inline(var_ptr, unary, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at):
    """Fill `local` and `at` from the assignment; the score without the constant. Cost O(sum of the degrees' states)."""
    num_vars = len(x)
    local[:] = unary
    score = 0.0
    for i in range(num_vars):
        score += unary[var_ptr[i] + x[i]]
        for r in range(arc_ptr[i], arc_ptr[i + 1]):
            base = arcs[r, BASE]
            if base >= 0:
                j = arcs[r, TO]
                state = var_ptr[j]
                card = var_ptr[j + 1] - state
                row = base + x[i] * card
                for y in range(card):
                    put(local, state + y, get(local, state + y) + get(pair, row + y))
                if i < j:
                    score += pair[row + x[j]]
    for p in range(len(factors) - 1):
        entry = factors[p, ENTRY]
        for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
            entry += x[slots[s, VARIABLE]] * slots[s, STRIDE]
        at[p] = entry
        score += table[entry]
        for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
            j, stride = slots[s, VARIABLE], slots[s, STRIDE]
            state = var_ptr[j]
            row = entry - x[j] * stride
            for y in range(var_ptr[j + 1] - state):
                local[state + y] += table[row + y * stride]
    return score


@fast_kernel
def rebuild(var_ptr, unary, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at):
    """`rebuild_inline` as a call."""
    return rebuild_inline(var_ptr, unary, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at)


@inlined
def move(var_ptr, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, i, b):
    """Put variable i into state b and bring `local` of its neighbours up to date."""
    a = x[i]
    for r in range(arc_ptr[i], arc_ptr[i + 1]):
        base = arcs[r, BASE]
        if base >= 0:
            j = arcs[r, TO]
            state = var_ptr[j]
            card = var_ptr[j + 1] - state
            old, new = base + a * card, base + b * card
            for y in range(card):
                put(local, state + y, get(local, state + y) + (get(pair, new + y) - get(pair, old + y)))
    for r in range(high_ptr[i], high_ptr[i + 1]):
        s = high[r]
        p = slots[s, FACTOR]
        shift = (b - a) * slots[s, STRIDE]
        for t in range(factors[p, SLOT], factors[p + 1, SLOT]):
            if t != s:
                j, stride = slots[t, VARIABLE], slots[t, STRIDE]
                state = var_ptr[j]
                row = at[p] - x[j] * stride
                for y in range(var_ptr[j + 1] - state):
                    local[state + y] += table[row + shift + y * stride] - table[row + y * stride]
        at[p] += shift
    x[i] = b


@inlined
def best_change(var_ptr, local, x, gain, choice, j):
    """gain[j] and choice[j]: the best state of variable j other than the current one, and what it changes."""
    state, here = var_ptr[j], x[j]
    card = var_ptr[j + 1] - state
    top = -np.inf
    pick = here
    for y in range(card):
        value = get(local, state + y)
        if value > top and y != here:
            top = value
            pick = y
    gain[j] = top - local[state + here]
    choice[j] = pick
