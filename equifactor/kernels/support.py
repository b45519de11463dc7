"""States that a zero table entry rules out, and the tables without them."""

import math

import numpy as np

from equifactor.kernels import kernel

NEG_INF = -math.inf


@kernel
def rule_out(scope_ptr, scope_vars, table_ptr, var_ptr, var_factors, card, state_ptr, log_phi, live):
    """Generalised arc consistency: clear `live` [X] for states that some table gives no positive entry to.

    Such a state has marginal zero and is in no assignment of positive score. Factors are looked at again when a
    variable around them has lost a state, so the cost is O(T) per round, and rounds follow chains of implications.
    Returns a variable without states left (every assignment has probability zero), or -1.
    """
    num_factors = len(scope_ptr) - 1
    hard = np.zeros(num_factors, np.bool_)
    waiting = np.zeros(num_factors, np.bool_)
    queue = np.empty(num_factors + 1, np.int64)  # a ring: each factor is in it at most once
    head, tail = 0, 0
    widest, largest = 1, 1
    for a in range(num_factors):
        widest = max(widest, scope_ptr[a + 1] - scope_ptr[a])
        for t in range(table_ptr[a], table_ptr[a + 1]):
            if log_phi[t] == NEG_INF:
                hard[a] = waiting[a] = True
                queue[tail] = a
                tail += 1
                for e in range(scope_ptr[a], scope_ptr[a + 1]):
                    largest = max(largest, card[scope_vars[e]])
                break
    digit = np.zeros(widest, np.int64)
    supported = np.zeros((widest, largest), np.bool_)
    while head != tail:
        a = queue[head]
        head = (head + 1) % len(queue)
        waiting[a] = False
        first = scope_ptr[a]
        arity = scope_ptr[a + 1] - first
        for j in range(arity):
            digit[j] = 0
            for x in range(card[scope_vars[first + j]]):
                supported[j, x] = False
        for t in range(table_ptr[a], table_ptr[a + 1]):
            possible = log_phi[t] > NEG_INF
            for j in range(arity):
                possible = possible and live[state_ptr[scope_vars[first + j]] + digit[j]]
            if possible:
                for j in range(arity):
                    supported[j, digit[j]] = True
            _count_up(digit, arity, scope_vars, first, card)
        for j in range(arity):
            i = scope_vars[first + j]
            lost, left = False, 0
            for x in range(card[i]):
                if live[state_ptr[i] + x] and not supported[j, x]:
                    live[state_ptr[i] + x] = False
                    lost = True
                left += live[state_ptr[i] + x]
            if left == 0:
                return i
            if lost:
                for r in range(var_ptr[i], var_ptr[i + 1]):
                    b = var_factors[r]
                    if hard[b] and not waiting[b] and b != a:
                        waiting[b] = True
                        queue[tail] = b
                        tail = (tail + 1) % len(queue)
    return -1


@kernel
def live_entries(scope_ptr, scope_vars, table_ptr, card, state_ptr, live):
    """Table entries whose states are all live, in order, and the first of each factor [F+1]."""
    num_factors = len(scope_ptr) - 1
    new_ptr = np.zeros(num_factors + 1, np.int64)
    widest = 1
    for a in range(num_factors):
        widest = max(widest, scope_ptr[a + 1] - scope_ptr[a])
        size = 1
        for e in range(scope_ptr[a], scope_ptr[a + 1]):
            count = 0
            for x in range(card[scope_vars[e]]):
                count += live[state_ptr[scope_vars[e]] + x]
            size *= count
        new_ptr[a + 1] = new_ptr[a] + size
    entries = np.empty(new_ptr[num_factors], np.int64)
    digit = np.zeros(widest, np.int64)
    end = 0
    for a in range(num_factors):
        first = scope_ptr[a]
        arity = scope_ptr[a + 1] - first
        for j in range(arity):
            digit[j] = 0
        for t in range(table_ptr[a], table_ptr[a + 1]):
            possible = True
            for j in range(arity):
                possible = possible and live[state_ptr[scope_vars[first + j]] + digit[j]]
            if possible:
                entries[end] = t
                end += 1
            _count_up(digit, arity, scope_vars, first, card)
    return new_ptr, entries


@kernel
def _count_up(digit, arity, scope_vars, first, card):
    """The next entry of a table in C order."""
    j = arity - 1
    while j >= 0:
        digit[j] += 1
        if digit[j] < card[scope_vars[first + j]]:
            return
        digit[j] = 0
        j -= 1
