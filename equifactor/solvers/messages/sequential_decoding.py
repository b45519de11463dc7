# mypy: ignore-errors
"""Sequential decoding of max-product messages: whole factors are fixed one after another, in agreement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.factors.factor_messages import add_up, first_entry, step, with_agreeing_messages
from equifactor.factors.kind_rows import KIND
from equifactor.factors.message_answers import beliefs, variable_to_factor
from equifactor.factors.structured_kernels import kind_rows_of, structured_maximum
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, VAR, Layout, layout_of
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined, plain

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FlatGraph


def sequential_states(flat: FlatGraph[np.ndarray], msg_fv: FloatArray) -> IntArray:
    """Return the states [V] decoded from factor-to-variable messages [S] as by libDAI's `findMaximum` [Mooij10].

    A stack of factors starts with the first factor of the model. The factor on top takes the entry of highest belief,
    log f_a + sum_i m_{i->a}, among those that agree with the variables fixed so far (the first on ties). Its free
    variables are fixed, and their other factors that have not been visited are pushed, by number. When the stack is
    empty, the next factor of the model is pushed. If no entry of positive belief agrees (libDAI fails here), the factor
    is skipped. A variable that no factor fixes takes the state of its own highest belief. Cost O(T).
    """
    layout = layout_of(flat)
    total, zeros = np.zeros(flat.num_states), np.zeros(flat.num_states, np.int64)
    add_up(layout.edges, msg_fv, total, zeros)
    msg_vf = variable_to_factor(layout.edges, msg_fv, total, zeros)
    number = np.argsort(layout.order)  # the number of each flat factor in the model
    var = np.repeat(np.arange(flat.num_vars), np.diff(layout.neighbour_ptr))
    neighbours = layout.neighbours[np.lexsort((number[layout.neighbours], var))]
    slot_order = np.lexsort((layout.slots[:, VAR], layout.factor_of_slot))
    states = np.full(flat.num_vars, -1)
    _find_maximum(plain(layout), kind_rows_of(flat, True), slot_order, neighbours, flat.log_phi, msg_vf, states)
    alone = beliefs(flat.var_ptr, np.where(zeros > 0, -np.inf, total))[2]
    return np.where(states >= 0, states, alone)


@fast_kernel
def _find_maximum(layout, kinds, slot_order, neighbours, log_phi, values, states):
    """Fix whole factors at their best entry that agrees with the fixed variables, spreading along shared variables.

    If every entry that agrees has belief -inf, the free variables of the factor stay free for a later factor.

    Args:
        layout: the index arrays of the graph.
        kinds: the fields of `KindRows`, or None if all factors are tables.
        slot_order: [E] the slots of each factor in the order in which its variables push their factors.
        neighbours: [E] the factors around each variable in the order in which they are pushed.
        log_phi: [T] the tables.
        values: [S] the number that each slot adds to the belief of an entry.
        states: [V] -1 for free variables; filled in place, and still -1 if no factor decides.
    """
    layout = Layout(*layout)
    factors, slots, neighbour_ptr = layout.factors, layout.slots, layout.neighbour_ptr
    visited = np.zeros(len(factors) - 1, np.bool_)
    stack = np.empty(len(factors) - 1, np.int64)
    at = np.empty(max(1, layout.max_arity), np.int64)
    longest = max(1, layout.max_arity)
    for p in range(len(factors) - 1):
        longest = max(longest, factors[p + 1, SLOT] - factors[p, SLOT])
    best_at = np.empty(longest, np.int64)
    if kinds is not None:
        # the values that agree with the fixed states, and scratch
        given, sent = np.empty_like(values), np.empty_like(values)
    for seed in layout.order:
        if visited[seed]:
            continue
        visited[seed] = True
        stack[0] = seed
        height = 1
        while height > 0:
            height -= 1
            p = stack[height]
            first, last = factors[p, SLOT], factors[p + 1, SLOT]
            is_table, found = True, False
            if kinds is not None:
                is_table = kinds[KIND][p] == 0
                if not is_table:
                    found = _best_states(factors, slots, log_phi, kinds, values, states, p, given, sent, best_at)
            if is_table:
                found = _best_entry(factors, slots, log_phi, values, states, p, at, best_at)
            if not found:
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


@inlined
def _best_entry(factors, slots, log_phi, values, states, p, at, best_at):
    """Fill `best_at` with the best entry that agrees with the fixed states; return whether its belief is positive."""
    first = factors[p, SLOT]
    arity = factors[p + 1, SLOT] - first
    first_entry(slots, first, arity, at)
    best = NEG_INF
    for t in range(factors[p, ENTRY], factors[p + 1, ENTRY]):
        value = with_agreeing_messages(log_phi[t], values, at, slots, first, arity, states)
        if value > best:
            best = value
            for j in range(arity):
                best_at[j] = at[j]
        step(slots, first, arity, at)
    return best > NEG_INF


@fast_kernel
def _best_states(factors, slots, log_phi, kinds, values, states, p, given, sent, best_at):
    """Find the best entry of a structured factor, as `_best_entry` does for a table."""
    first, last = factors[p, SLOT], factors[p + 1, SLOT]
    for s in range(first, last):
        fixed = states[slots[s, VAR]]
        for x in range(slots[s, CARD]):
            given[slots[s, MSG] + x] = values[slots[s, MSG] + x] if fixed < 0 or fixed == x else NEG_INF
    best = structured_maximum(factors, slots, log_phi, kinds, p, given, sent, best_at)
    for s in range(first, last):
        best_at[s - first] += slots[s, MSG]
    return best > NEG_INF
