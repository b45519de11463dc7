# mypy: ignore-errors
"""Tree-reweighted sum-product: the forests behind the weights, and a bound on ln Z that holds at any messages.

The sweeps are those of `schedule_kernels`. The weight of a factor is rho_a, the share of the forests that hold it. The
tables passed in are divided by that share.
"""

import math
from typing import NamedTuple

import numpy as np

from equifactor.base.budget import EPS, OTHER_STEPS
from equifactor.base.typing import BoolArray, IntArray
from equifactor.factors.factor_messages import first_entry, log_add, step
from equifactor.factors.kind_rows import KIND
from equifactor.factors.structured_kernels import SPARSE, TRUNCATED_LINEAR, KindRows, structured_messages
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE, VAR, Layout
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined, kernel


class Forest(NamedTuple):
    """Some factors without a cycle, oriented towards one root in each tree."""

    is_root: BoolArray  # [V]
    order: IntArray  # [n, 2] the factors and the slots of their parent variables, leaves first


@kernel
def choose_forest(order, layout):
    """Return which factors [F] of arity 2 and more, taken greedily in the given order, form a graph without cycles."""
    layout = Layout(*layout)
    factors, slots = layout.factors, layout.slots
    parent = np.arange(len(layout.var_ptr) - 1)
    chosen = np.zeros(len(factors) - 1, np.bool_)
    met = np.full(len(parent), -1)  # the last factor that touched each tree
    for p in order:
        first, last = factors[p, SLOT], factors[p + 1, SLOT]
        if last - first < 2:
            continue
        apart = True
        for s in range(first, last):
            root = _root(parent, slots[s, VAR])
            apart = apart and met[root] != p
            met[root] = p
        if apart:
            chosen[p] = True
            for s in range(first + 1, last):
                parent[_root(parent, slots[s, VAR])] = _root(parent, slots[first, VAR])
    return chosen


@inlined
def _root(parent, i):
    """Return the representative of the tree that holds variable i."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]  # path halving
        i = parent[i]
    return i


@kernel
def orient_forest(chosen, layout):
    """Return the fields of the `Forest` of the chosen factors [F]."""
    layout = Layout(*layout)
    factors, slots = layout.factors, layout.slots
    neighbour_ptr, neighbours = layout.neighbour_ptr, layout.neighbours
    num_vars = len(layout.var_ptr) - 1
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
def forest_log_z(forest, layout, kinds, log_phi, msg, log_b_v, size_b_v, log_z, error):
    """Add to log_z [G] the ln of the sum of exp(sum_i log_b_v + sum of log_phi - messages over the forest's factors).

    The sum is exact except for rounding, by elimination towards the roots; log_b_v [X] is -inf at states that are ruled
    out. A bound on the rounding error is added to error [G]. Each addition has an error of at most EPS times the sizes
    of its terms, and errors of children are passed on to the root. size_b_v [X] sums the sizes of the terms of log_b_v.
    `kinds` are the fields of `KindRows`, or None where all factors are tables. Cost O(T) for tables, and that of a
    message for structured factors.
    """
    forest, layout = Forest(*forest), Layout(*layout)
    factors, slots, var_ptr = layout.factors, layout.slots, layout.var_ptr
    is_root, order = forest
    graph_of_var, neighbour_ptr = layout.graph_of_var, layout.neighbour_ptr
    up = log_b_v.copy()
    num_vars = len(var_ptr) - 1
    widest = 1
    off = np.zeros(num_vars)  # bound on the error of `up` at the states of each variable
    for i in range(num_vars):
        widest = max(widest, var_ptr[i + 1] - var_ptr[i])
        for x in range(var_ptr[i], var_ptr[i + 1]):
            off[i] = max(off[i], EPS * (neighbour_ptr[i + 1] - neighbour_ptr[i] + 2) * size_b_v[x])
    at = np.empty(max(1, layout.max_arity), np.int64)
    top, scaled = np.empty(widest), np.empty(widest)
    if kinds is not None:
        q, out = np.empty_like(msg), np.empty_like(msg)
    moved = 0.0
    for n in range(len(order)):
        p, parent = order[n, 0], order[n, 1]
        first = factors[p, SLOT]
        k = factors[p + 1, SLOT] - first
        d, state = slots[parent, CARD], slots[parent, STATE]
        is_table = True
        if kinds is not None:
            is_table = kinds[KIND][p] == 0
            if not is_table:
                moved = _structured_message(factors, slots, kinds, log_phi, p, parent, up, msg, q, out, top)
                scaled[:d] = 1.0
        if is_table:
            top[:d] = NEG_INF
            scaled[:d] = 0.0
            first_entry(slots, first, k, at)
            largest = 0.0
            for t in range(factors[p, ENTRY], factors[p + 1, ENTRY]):
                value = log_phi[t]
                size = abs(value)
                for j in range(k):
                    x = at[j] - slots[first + j, MSG]
                    u = up[slots[first + j, STATE] + x]
                    below = 0.0 if first + j == parent else u
                    value += NEG_INF if u == NEG_INF else below - msg[at[j]]
                    size += abs(below) + abs(msg[at[j]])
                x = at[parent - first] - slots[parent, MSG]
                top[x], scaled[x] = log_add(top[x], scaled[x], value)
                largest = max(largest, size if value > NEG_INF else 0.0)
                step(slots, first, k, at)
            entries = factors[p + 1, ENTRY] - factors[p, ENTRY]
            moved = EPS * ((k + 2) * largest + entries + OTHER_STEPS)
        for s in range(first, first + k):
            moved += 0.0 if s == parent else off[slots[s, VAR]]
        largest = 0.0
        for x in range(d):
            up[state + x] += NEG_INF if top[x] == NEG_INF else top[x] + math.log(scaled[x])
            largest = max(largest, abs(up[state + x]) if up[state + x] > NEG_INF else 0.0)
        off[slots[parent, VAR]] += moved + EPS * largest
    for i in range(num_vars):
        if is_root[i]:
            best, mass = NEG_INF, 0.0
            for x in range(var_ptr[i], var_ptr[i + 1]):
                best = max(best, up[x])
            if best > NEG_INF:
                for x in range(var_ptr[i], var_ptr[i + 1]):
                    mass += math.exp(up[x] - best)
            g = graph_of_var[i]
            log_z[g] += NEG_INF if best == NEG_INF else best + math.log(mass)
            sizes = 0.0 if log_z[g] == NEG_INF else abs(best) + abs(log_z[g])
            error[g] += off[i] + EPS * (sizes + var_ptr[i + 1] - var_ptr[i] + OTHER_STEPS)


@fast_kernel
def _structured_message(factors, slots, kinds, log_phi, p, parent, up, msg, q, out, top):
    """Fill top [d] with the log message of structured factor p to its parent slot; return a bound on its error.

    Each number results from at most `steps` successive sums of two terms, each at most `size`.
    """
    kinds = KindRows(*kinds)
    first, last = factors[p, SLOT], factors[p + 1, SLOT]
    size, steps = 0.0, 2 * (last - first) + factors[p + 1, ENTRY] - factors[p, ENTRY]
    for t in range(factors[p, ENTRY], factors[p + 1, ENTRY]):
        size = max(size, abs(log_phi[t]) if log_phi[t] > NEG_INF else 0.0)
    if kinds.kind[p] == TRUNCATED_LINEAR:  # labels and the slope are multiplied before they are subtracted
        furthest = 0
        for w in range(kinds.word_ptr[p], kinds.word_ptr[p + 1]):
            furthest = max(furthest, abs(kinds.words[w]))
        size += 2.0 * size * furthest
    if kinds.kind[p] == SPARSE:
        steps += kinds.boxes[0][p + 1] - kinds.boxes[0][p]
    for s in range(first, last):
        m, state, d = slots[s, MSG], slots[s, STATE], slots[s, CARD]
        steps += d
        largest = 0.0
        for x in range(d):
            u = up[state + x]
            below = 0.0 if s == parent or u == NEG_INF else u
            taken = 0.0 if u == NEG_INF else msg[m + x]
            q[m + x] = NEG_INF if u == NEG_INF else below - taken
            largest = max(largest, abs(below) + abs(taken))
        size += largest
    structured_messages(factors, slots, log_phi, kinds, p, q, out)
    m = slots[parent, MSG]
    for x in range(slots[parent, CARD]):
        top[x] = NEG_INF if q[m + x] == NEG_INF else out[m + x] + q[m + x]
    return 2.0 * EPS * (steps + OTHER_STEPS) * (size + steps + OTHER_STEPS)
