# mypy: ignore-errors
"""The nodes of branch and bound over a reparametrised graph: bounds by message passing from the last decision on.

The state of a node is one array, `value`: `total [X]` (sum of the messages to a variable), then `msg [S]`, then `top
[V] = max_x total`. The tables are shifted so that `theta_a - sum_i msg_{a->i} <= 0`, so the bound of a node is the sum
of `top`. A state that is ruled out, or that cannot beat the incumbent, has total -inf. Changes are recorded on a trail,
by which they are undone when the search leaves a node.
"""

import math
from typing import NamedTuple

import numpy as np

from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE, VAR
from equifactor.kernels.fastmath import NEG_INF, get, put
from equifactor.kernels.jit import fast_kernel, inlined

STRIDE = 4  # slots have one more column than those of a layout: the stride in the factor's table
TRAIL, LEVEL, UPDATES, NODES, CULPRIT = 0, 1, 2, 3, 4  # the places of `NodeValues.count`
HEAD, SIZE = 0, 1  # the places of `FactorQueue.ends`


class NodeGraph(NamedTuple):
    """The graph of all nodes: F factors of two and more variables with E slots and T table entries."""

    var_ptr: np.ndarray  # [V+1] the states of variable i are var_ptr[i]:var_ptr[i+1]
    factors: np.ndarray  # [F+1, 2] first slot and first table entry of each factor
    slots: np.ndarray  # [E, 5] first message entry, first state, cardinality, variable and stride of each slot
    neighbour_ptr: np.ndarray  # [V+1] the factors of variable i are neighbour_ptr[i]:neighbour_ptr[i+1]
    neighbours: np.ndarray  # [E] factors, variable after variable
    theta: np.ndarray  # [T] log tables, shifted by `shift`
    first_msg: int  # where the messages begin in `value`
    first_top: int  # where the maxima of the variables begin in `value`


class NodeValues(NamedTuple):
    """The values of the present node, and the trail by which they are undone."""

    value: np.ndarray  # [X + S + V] totals, messages and maxima
    stamp: np.ndarray  # [X + S + V] the level at which each value was last put on the trail
    trail_at: np.ndarray  # [room] places of `value` that were changed
    trail_value: np.ndarray  # [room] the values before
    count: np.ndarray  # [5] the length of the trail and other numbers that change during a dive


class FactorQueue(NamedTuple):
    """The factors that wait to be renewed, in a ring buffer."""

    ring: np.ndarray  # [F] the waiting factors in order, from `ends[HEAD]` on; place 0 follows the last one
    waiting: np.ndarray  # [F] whether a factor is in the ring
    ends: np.ndarray  # [2] where the ring begins, and how many factors are in it


class NodeScratch(NamedTuple):
    """Working space for the renewal of one factor."""

    joint: np.ndarray  # [largest table] the table plus the messages of its variables
    best: np.ndarray  # [largest cardinality] max-marginals of one variable
    moved: np.ndarray  # [largest arity] the largest change of total_i - top_i per slot, infinite for a new -inf


@inlined
def keep(node, n):
    """Put node.value[n] on the trail, once per level."""
    count = node.count
    if get(node.stamp, n) != count[LEVEL]:
        put(node.stamp, n, count[LEVEL])
        node.trail_at[count[TRAIL]] = n
        node.trail_value[count[TRAIL]] = get(node.value, n)
        count[TRAIL] += 1


@inlined
def push(queue, p):
    """Put factor p into the queue of factors to renew."""
    if not queue.waiting[p]:
        queue.waiting[p] = True
        at = queue.ends[HEAD] + queue.ends[SIZE]
        queue.ring[at if at < len(queue.ring) else at - len(queue.ring)] = p
        queue.ends[SIZE] += 1


@inlined
def pop(queue):
    """Remove the factor that has waited longest, and return it."""
    p = queue.ring[queue.ends[HEAD]]
    queue.ends[HEAD] += 1
    if queue.ends[HEAD] == len(queue.ring):
        queue.ends[HEAD] = 0
    queue.ends[SIZE] -= 1
    queue.waiting[p] = False
    return p


@fast_kernel
def empty(queue):
    """Remove all factors from the queue."""
    while queue.ends[SIZE] > 0:
        pop(queue)


@inlined
def sum_of_tops(graph, node):
    """Return the bound of the node, recomputed: a running sum accumulates rounding."""
    bound = 0.0
    for i in range(len(graph.var_ptr) - 1):
        bound += node.value[graph.first_top + i]
    return bound


@fast_kernel
def renew(graph, node, scratch, p):
    """Share the max-marginals of factor p among its undecided variables; return the change of the bound.

    This is a block minimum of the dual (MPLP): total_i = mu_i / k for the k undecided variables, so their totals hold
    all reduced costs that the factor can see. It fills scratch.moved.
    """
    factors, slots, value = graph.factors, graph.slots, node.value
    joint, best = scratch.joint, scratch.best
    first, last = factors[p, SLOT], factors[p + 1, SLOT]
    entry = factors[p, ENTRY]
    size = factors[p + 1, ENTRY] - entry
    for t in range(size):
        put(joint, t, get(graph.theta, entry + t))
    undecided = 0
    for s in range(first, last):
        state, d, stride = slots[s, STATE], slots[s, CARD], slots[s, STRIDE]
        m = graph.first_msg + slots[s, MSG]
        alive = 0
        for x in range(d):
            q = get(value, state + x)
            if q > NEG_INF:
                q -= get(value, m + x)
                alive += 1
            add_along(joint, size, x, d, stride, q)
        undecided += alive > 1
    rise = 0.0
    for s in range(first, last):
        state, d, stride = slots[s, STATE], slots[s, CARD], slots[s, STRIDE]
        m, n = graph.first_msg + slots[s, MSG], graph.first_top + slots[s, VAR]
        alive = 0
        for x in range(d):
            alive += get(value, state + x) > NEG_INF
        share = 1.0 / undecided if alive > 1 else 0.0
        if undecided == 0 and s == first:
            share = 1.0
        peak = NEG_INF
        for x in range(d):
            top = NEG_INF
            if get(value, state + x) > NEG_INF:
                top = best_along(joint, size, x, d, stride)
                top = top * share if top > NEG_INF else NEG_INF
            put(best, x, top)
            peak = max(peak, top)
        change = 0.0
        old_peak = get(value, n)
        for x in range(d):
            old, new = get(value, state + x), get(best, x)
            if old == NEG_INF or new == old:
                continue
            keep(node, state + x)
            put(value, state + x, new)
            if new == NEG_INF:
                change = math.inf
            else:
                keep(node, m + x)
                put(value, m + x, get(value, m + x) + (new - old))
                change = max(change, abs((new - peak) - (old - old_peak)))
        rise += peak - old_peak
        if peak != old_peak:
            keep(node, n)
            put(value, n, peak)
        put(scratch.moved, s - first, change)
    return rise


@inlined
def add_along(joint, size, x, d, stride, q):
    """Add q to all entries of a table at state x of the axis of d states and this stride."""
    if stride == 1:
        for t in range(x, size, d):
            put(joint, t, get(joint, t) + q)
    else:
        for base in range(x * stride, size, d * stride):
            for t in range(base, base + stride):
                put(joint, t, get(joint, t) + q)


@inlined
def best_along(joint, size, x, d, stride):
    """Return the largest of all entries of a table at state x of the axis of d states and this stride."""
    top = NEG_INF
    if stride == 1:
        for t in range(x, size, d):
            top = max(top, get(joint, t))
    else:
        for base in range(x * stride, size, d * stride):
            for t in range(base, base + stride):
                top = max(top, get(joint, t))
    return top


@fast_kernel
def exclude_states(graph, node, i, floor, bound):
    """Rule out the states of variable i with which the bound is not above `floor`; return whether there were any."""
    value = node.value
    top = value[graph.first_top + i]
    found = False
    for x in range(graph.var_ptr[i], graph.var_ptr[i + 1]):
        # The difference is 0 for the best state, so that a value larger than the gap by 1e16 does not rule itself out.
        if value[x] > NEG_INF and value[x] - top <= floor - bound:
            keep(node, x)
            value[x] = NEG_INF
            found = True
    return found


@fast_kernel
def propagate(graph, node, queue, scratch, bound, floor, fine, most):
    """Renew the queued factors, and those that their changes reach, until all are done or the bound is not above floor.

    Changes below `fine` are not passed on, and after `most` renewals only new zeros are. Returns the bound, -inf when
    the node is discarded.
    """
    factors, slots, neighbour_ptr, neighbours = graph.factors, graph.slots, graph.neighbour_ptr, graph.neighbours
    count, ends, moved = node.count, queue.ends, scratch.moved
    done = 0
    num_vars = len(graph.var_ptr) - 1
    count[CULPRIT] = -1
    if not bound > floor:
        empty(queue)
        return NEG_INF
    while True:
        while ends[SIZE] > 0:
            p = pop(queue)
            bound += renew(graph, node, scratch, p)
            done += 1
            if not bound > floor:
                count[CULPRIT] = p
                empty(queue)
                count[UPDATES] += done
                return NEG_INF
            for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
                change = moved[s - factors[p, SLOT]]
                i = slots[s, VAR]
                if exclude_states(graph, node, i, floor, bound):
                    change = math.inf
                    push(queue, p)
                if change > fine and (done < most or change == math.inf):
                    for r in range(neighbour_ptr[i], neighbour_ptr[i + 1]):
                        if neighbours[r] != p:
                            push(queue, neighbours[r])
        for i in range(num_vars):
            if exclude_states(graph, node, i, floor, bound):
                for r in range(neighbour_ptr[i], neighbour_ptr[i + 1]):
                    push(queue, neighbours[r])
        if ends[SIZE] == 0:
            break
    count[UPDATES] += done
    return sum_of_tops(graph, node)


@fast_kernel
def decide(graph, node, queue, i, x, assign):
    """Leave variable i only state x, or only the others; return the change of the bound, -inf if no state is left."""
    value, top = node.value, graph.first_top + i
    peak = NEG_INF
    for y in range(graph.var_ptr[i], graph.var_ptr[i + 1]):
        if (y - graph.var_ptr[i] == x) != assign:
            if value[y] > NEG_INF:
                keep(node, y)
                value[y] = NEG_INF
        else:
            peak = max(peak, value[y])
    rise = peak - value[top]
    if peak > NEG_INF:
        keep(node, top)
        value[top] = peak
        for r in range(graph.neighbour_ptr[i], graph.neighbour_ptr[i + 1]):
            push(queue, graph.neighbours[r])
    return rise
