# mypy: ignore-errors
"""Depth-first branch and bound; the state of a node and its bound are those of `kernels.nodes`."""

import math

from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE, VAR
from equifactor.numerics.jit import fast_kernel
from equifactor.solvers.optimise.nodes import CULPRIT, LEVEL, NODES, STRIDE, TRAIL, UPDATES, decide, propagate

NEG_INF = -math.inf
WIDE = 100.0  # stands for the gap while there is no incumbent
LEFT, RIGHT = 0, 1  # which child of a decision is being searched


@fast_kernel
def choose(bound, floor, var_ptr, factors, slots, theta, value, first_msg, weight, x, merit):
    """Decode x [V], the best state of each variable by itself, and the variable to branch on.

    A factor that scores less at x than it might is what keeps bound and score apart: a variable's merit is what its
    factors lose, times their weight. Returns the log score of x relative to the bound (at most 0), and the variable,
    -1 when none is left.
    """
    gap = min(bound - floor, WIDE)
    for i in range(len(var_ptr) - 1):
        pick = var_ptr[i]
        for y in range(var_ptr[i] + 1, var_ptr[i + 1]):
            if value[y] > value[pick]:
                pick = y
        x[i] = pick - var_ptr[i]
        merit[i] = 0.0
    lost = 0.0
    for p in range(len(factors) - 1):
        first, last = factors[p, SLOT], factors[p + 1, SLOT]
        entry = factors[p, ENTRY]
        sent = 0.0
        for s in range(first, last):
            here = x[slots[s, VAR]]
            entry += here * slots[s, STRIDE]
            sent += value[first_msg + slots[s, MSG] + here]
        loss = sent - theta[entry]
        lost += loss
        if loss > 1e-12:
            gain = min(loss, gap) * weight[p]
            for s in range(first, last):
                merit[slots[s, VAR]] += gain
    chosen = -1
    for i in range(len(var_ptr) - 1):
        alive = 0
        for y in range(var_ptr[i], var_ptr[i + 1]):
            alive += value[y] > NEG_INF
        if alive > 1 and (chosen < 0 or merit[i] > merit[chosen]):
            chosen = i
    return -lost, chosen


@fast_kernel
def shift(factors, slots, theta, value, first_msg):
    """Bring the largest live entry of every reparametrised table to 0, in place; the sum of what was taken off."""
    taken = 0.0
    for p in range(len(factors) - 1):
        top = NEG_INF
        entry = factors[p, ENTRY]
        for t in range(factors[p + 1, ENTRY] - entry):
            v = theta[entry + t]
            for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
                x = (t // slots[s, STRIDE]) % slots[s, CARD]
                v -= value[first_msg + slots[s, MSG] + x]
                if value[slots[s, STATE] + x] == NEG_INF:
                    v = NEG_INF
            top = max(top, v)
        taken += top
        if top > NEG_INF:
            for t in range(entry, factors[p + 1, ENTRY]):
                theta[t] -= top
    return taken


@fast_kernel
def dive(
    path, depth, limit, most_updates, per_node, slack, share, most, best_score, best_x, var_ptr, factors, slots,
    neighbour_ptr, neighbours, theta, value, first_msg, first_top, joint, best, moved, queue, queued, stamp, trail_at,
    trail_value, count, weight, x, merit, marks, bounds,
):  # fmt: skip
    """Search below the decisions path[:depth] (rows: variable, state, LEFT or RIGHT), best states first.

    `value` is that of the root and is spoilt. Ends when the subtree is exhausted or after `limit` backtracks or
    `most_updates` renewals; every node counts as `per_node` of them. best_score [1] and best_x [V] hold the incumbent;
    a node is done with when its bound is not above best_score + slack. Returns the first and the last row of the path
    below which something is left: of the rows `first <= n < last` those with LEFT have their right child open, with
    bounds[n]; and whether the node at path[:last] itself is open, with bounds[last].
    """
    count[LEVEL] += 1
    count[TRAIL] = 0
    room = len(value)
    bound = 0.0
    for i in range(len(var_ptr) - 1):
        bound += value[first_top + i]
    floor = best_score[0] + slack
    for n in range(depth):
        bound += decide(
            path[n, 0], path[n, 1], path[n, 2] == LEFT, var_ptr, neighbour_ptr, neighbours, value, first_top, queue,
            queued, stamp, trail_at, trail_value, count,
        )  # fmt: skip
    fine = max(share * min(bound - floor, WIDE), 1e-9)
    bound = propagate(
        bound, floor, fine, most, var_ptr, factors, slots, neighbour_ptr, neighbours, theta, value, first_msg,
        first_top, joint, best, moved, queue, queued, stamp, trail_at, trail_value, count,
    )  # fmt: skip
    first = depth
    stop_at = count[UPDATES] + most_updates
    backtracks = 0
    while True:
        count[NODES] += 1
        count[UPDATES] += per_node
        chosen = -1
        if bound > NEG_INF:
            gain, chosen = choose(bound, floor, var_ptr, factors, slots, theta, value, first_msg, weight, x, merit)
            if bound + gain > best_score[0]:
                best_score[0] = bound + gain
                best_x[:] = x
                floor = best_score[0] + slack
            if not bound > floor:
                chosen = -1
        if chosen < 0:
            if bound == NEG_INF and count[CULPRIT] >= 0:
                weight[count[CULPRIT]] += 1.0
            depth -= 1
            while depth >= first and path[depth, 2] == RIGHT:
                depth -= 1
            if depth < first:
                return first, first, False
            backtracks += 1
            while count[TRAIL] > marks[depth]:
                count[TRAIL] -= 1
                value[trail_at[count[TRAIL]]] = trail_value[count[TRAIL]]
            path[depth, 2] = RIGHT
            bound = 0.0
            for i in range(len(var_ptr) - 1):
                bound += value[first_top + i]
        else:
            bounds[depth] = bound
            full = count[TRAIL] + 2 * room > len(trail_at)
            if backtracks >= limit or count[UPDATES] >= stop_at or full:
                return first, depth, True
            path[depth, 0], path[depth, 1], path[depth, 2] = chosen, x[chosen], LEFT
            second = NEG_INF
            for y in range(var_ptr[chosen], var_ptr[chosen + 1]):
                if y - var_ptr[chosen] != x[chosen]:
                    second = max(second, value[y])
            bounds[depth] += second - value[first_top + chosen]
            marks[depth] = count[TRAIL]
        i, state = path[depth, 0], path[depth, 1]
        count[LEVEL] += 1
        bound += decide(
            i, state, path[depth, 2] == LEFT, var_ptr, neighbour_ptr, neighbours, value, first_top, queue, queued,
            stamp, trail_at, trail_value, count,
        )  # fmt: skip
        depth += 1
        fine = max(share * min(bound - floor, WIDE), 1e-9)
        bound = propagate(
            bound, floor, fine, most, var_ptr, factors, slots, neighbour_ptr, neighbours, theta, value, first_msg,
            first_top, joint, best, moved, queue, queued, stamp, trail_at, trail_value, count,
        )  # fmt: skip
