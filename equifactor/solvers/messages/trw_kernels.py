# mypy: ignore-errors
"""Tree-reweighted sum-product: sweeps, the forests behind the weights, and a bound on ln Z that always holds.

Tables are given divided by the share rho_a of the forests that hold the factor. `total [X]` is sum_a rho_a m_{a->i};
`zeros [X]` counts every -inf message twice, so that `receive` rules the state out for its own factor as well.
"""

import math

import numpy as np

from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE, VAR
from equifactor.numerics.factor_messages import step, update_sum
from equifactor.numerics.jit import fast_kernel, inlined, kernel
from equifactor.solvers.messages.schedule_kernels import damped, message_change

NEG_INF = -math.inf


@fast_kernel
def add_up_weighted(factors, slots, rho, msg, total, zeros):
    """total and zeros of every state from scratch."""
    total[:] = 0.0
    zeros[:] = 0
    for p in range(len(factors) - 1):
        for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
            for x in range(slots[s, CARD]):
                m = msg[slots[s, MSG] + x]
                total[slots[s, STATE] + x] += 0.0 if m == NEG_INF else rho[p] * m
                zeros[slots[s, STATE] + x] += 2 if m == NEG_INF else 0


@fast_kernel
def sweep_reweighted(
    order, factors, slots, log_phi, phi, wide, rho, msg, total, zeros, q, out, at, before, damping, graph_of_factor,
    change,
):  # fmt: skip
    """Factor after factor: m_{a->i} = log-sum-exp of log f_a / rho_a + sum over j != i of (total_j - m_{a->j})."""
    for p in order:
        if factors[p + 1, SLOT] - factors[p, SLOT] < 2:
            continue
        update_sum(factors, slots, log_phi, phi, wide, p, msg, total, zeros, q, out, at, before)
        g = graph_of_factor[p]
        change[g] = max(change[g], message_change(factors[p, SLOT], factors[p + 1, SLOT], slots, msg, out))
        for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
            m, state = slots[s, MSG], slots[s, STATE]
            for x in range(slots[s, CARD]):
                old = msg[m + x]
                new = damped(old, out[m + x], damping)
                moved = (0.0 if new == NEG_INF else new) - (0.0 if old == NEG_INF else old)
                total[state + x] += rho[p] * moved
                zeros[state + x] += 2 * ((new == NEG_INF) - (old == NEG_INF))
                msg[m + x] = new


@kernel
def grow_forest(order, factors, slots, num_vars):
    """Factors of arity 2 and more, taken greedily in the given order, that leave the factor graph without a cycle."""
    parent = np.arange(num_vars)
    chosen = np.zeros(len(factors) - 1, np.bool_)
    for p in order:
        first, last = factors[p, SLOT], factors[p + 1, SLOT]
        if last - first < 2:
            continue
        apart = True
        for s in range(first, last):
            root = _root(parent, slots[s, VAR])
            for r in range(first, s):
                apart = apart and _root(parent, slots[r, VAR]) != root
        if apart:
            chosen[p] = True
            for s in range(first + 1, last):
                parent[_root(parent, slots[s, VAR])] = _root(parent, slots[first, VAR])
    return chosen


@inlined
def _root(parent, i):
    while parent[i] != i:
        parent[i] = parent[parent[i]]  # path halving
        i = parent[i]
    return i


@kernel
def orient_forest(chosen, factors, slots, neighbour_ptr, neighbours, num_vars):
    """Roots [V] (bool), and the forest's factors with the slot of their parent variable, leaves first: [n, 2]."""
    order = np.empty((chosen.sum(), 2), np.int64)
    is_root = np.zeros(num_vars, np.bool_)
    seen = np.zeros(num_vars, np.bool_)
    used = np.zeros(len(factors) - 1, np.bool_)
    queue = np.empty(num_vars, np.int64)
    place = len(order)  # filled from the back: the factors nearest to a root come last
    for start in range(num_vars):
        if seen[start]:
            continue
        is_root[start] = True
        seen[start] = True
        queue[0] = start
        head, tail = 0, 1
        while head < tail:
            i = queue[head]
            head += 1
            for r in range(neighbour_ptr[i], neighbour_ptr[i + 1]):
                p = neighbours[r]
                if not chosen[p] or used[p]:
                    continue
                used[p] = True
                place -= 1
                order[place, 0] = p
                for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
                    j = slots[s, VAR]
                    if j == i:
                        order[place, 1] = s
                    else:
                        seen[j] = True
                        queue[tail] = j
                        tail += 1
    return is_root, order


@fast_kernel
def forest_log_z(order, is_root, factors, slots, log_phi, msg, var_ptr, log_b_v, graph_of_var, log_z):
    """Add to log_z [G] the ln of the sum of exp(sum_i log_b_v + sum of log_phi - messages over the forest's factors).

    Exact, by elimination towards the roots; log_b_v [X] is -inf at the states that are ruled out. Cost O(T).
    """
    up = log_b_v.copy()
    widest, arity = 1, 1
    for n in range(len(order)):
        p = order[n, 0]
        arity = max(arity, factors[p + 1, SLOT] - factors[p, SLOT])
    for i in range(len(var_ptr) - 1):
        widest = max(widest, var_ptr[i + 1] - var_ptr[i])
    at = np.empty(arity, np.int64)
    top, scaled = np.empty(widest), np.empty(widest)
    for n in range(len(order)):
        p, parent = order[n, 0], order[n, 1]
        first = factors[p, SLOT]
        k = factors[p + 1, SLOT] - first
        d, state = slots[parent, CARD], slots[parent, STATE]
        top[:d] = NEG_INF
        scaled[:d] = 0.0
        for j in range(k):
            at[j] = slots[first + j, MSG]
        for t in range(factors[p, ENTRY], factors[p + 1, ENTRY]):
            value = log_phi[t]
            for j in range(k):
                x = at[j] - slots[first + j, MSG]
                u = up[slots[first + j, STATE] + x]
                given = (0.0 if first + j == parent else u) - msg[at[j]]
                value += NEG_INF if u == NEG_INF else given
            x = at[parent - first] - slots[parent, MSG]
            if value > top[x]:
                scaled[x] = (scaled[x] * math.exp(top[x] - value) if top[x] > NEG_INF else 0.0) + 1.0
                top[x] = value
            elif value > NEG_INF:
                scaled[x] += math.exp(value - top[x])
            step(slots, first, k, at)
        for x in range(d):
            up[state + x] += NEG_INF if top[x] == NEG_INF else top[x] + math.log(scaled[x])
    for i in range(len(var_ptr) - 1):
        if is_root[i]:
            best = NEG_INF
            for x in range(var_ptr[i], var_ptr[i + 1]):
                best = max(best, up[x])
            mass = 0.0
            if best > NEG_INF:
                for x in range(var_ptr[i], var_ptr[i + 1]):
                    mass += math.exp(up[x] - best)
            log_z[graph_of_var[i]] += NEG_INF if best == NEG_INF else best + math.log(mass)
