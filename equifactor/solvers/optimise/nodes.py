# mypy: ignore-errors
"""The nodes of branch and bound over a reparametrised graph: bounds by message passing from the last decision on.

The state of a node is one array, `value`: `total [X]` (sum of the messages to a variable), then `msg [S]`, then
`top [V] = max_x total`. The tables are shifted so that `theta_a - sum_i msg_{a->i} <= 0`, so the bound of a node is the
sum of `top`. A state that is ruled out, or that cannot beat the incumbent, has total -inf. Changes go to a trail, by
which a node is left again.
"""

import math

from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE, VAR
from equifactor.numerics.fastmath import get, put
from equifactor.numerics.jit import fast_kernel, inlined

NEG_INF = -math.inf
STRIDE = 4  # one more column of slots: step in the factor's table
# Places of `count`, numbers that change during a dive
QUEUE_HEAD, QUEUE_SIZE, TRAIL, LEVEL, UPDATES, NODES, CULPRIT = 0, 1, 2, 3, 4, 5, 6


@inlined
def keep(value, stamp, trail_at, trail_value, count, n):
    """Remember value[n] on the trail, once per level."""
    if get(stamp, n) != count[LEVEL]:
        put(stamp, n, count[LEVEL])
        trail_at[count[TRAIL]] = n
        trail_value[count[TRAIL]] = get(value, n)
        count[TRAIL] += 1


@inlined
def push(queue, queued, count, p):
    """Factor p is to be renewed."""
    if not queued[p]:
        queued[p] = True
        at = count[QUEUE_HEAD] + count[QUEUE_SIZE]
        queue[at if at < len(queue) else at - len(queue)] = p
        count[QUEUE_SIZE] += 1


@fast_kernel
def empty(queue, queued, count):
    """Forget what was to be renewed."""
    while count[QUEUE_SIZE] > 0:
        queued[queue[count[QUEUE_HEAD]]] = False
        count[QUEUE_HEAD] = (count[QUEUE_HEAD] + 1) % len(queue)
        count[QUEUE_SIZE] -= 1


@fast_kernel
def renew(
    p, factors, slots, theta, value, first_msg, first_top, joint, best, stamp, trail_at, trail_value, count, moved
):
    """Share the max-marginals of factor p among its undecided variables; what the bound changes by.

    A block minimum of the dual (MPLP): total_i = mu_i / k for the k undecided variables, so theirs are the whole
    reduced costs that the factor can see. moved [arity]: largest change of total_i - top_i, infinite for a new -inf.
    """
    first, last = factors[p, SLOT], factors[p + 1, SLOT]
    entry = factors[p, ENTRY]
    size = factors[p + 1, ENTRY] - entry
    for t in range(size):
        put(joint, t, get(theta, entry + t))
    undecided = 0
    for s in range(first, last):
        state, d, stride = slots[s, STATE], slots[s, CARD], slots[s, STRIDE]
        m = first_msg + slots[s, MSG]
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
        m, n = first_msg + slots[s, MSG], first_top + slots[s, VAR]
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
            keep(value, stamp, trail_at, trail_value, count, state + x)
            put(value, state + x, new)
            if new == NEG_INF:
                change = math.inf
            else:
                keep(value, stamp, trail_at, trail_value, count, m + x)
                put(value, m + x, get(value, m + x) + (new - old))
                change = max(change, abs((new - peak) - (old - old_peak)))
        rise += peak - old_peak
        if peak != old_peak:
            keep(value, stamp, trail_at, trail_value, count, n)
            put(value, n, peak)
        put(moved, s - first, change)
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
    """The largest of the same entries."""
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
def rule_out(i, floor, bound, var_ptr, value, first_top, stamp, trail_at, trail_value, count):
    """Rule out the states of variable i with which the bound is not above `floor`; whether there were any."""
    top = value[first_top + i]
    found = False
    for x in range(var_ptr[i], var_ptr[i + 1]):
        # As a difference, 0 for the best state: one that is larger than the gap by 1e16 must not rule itself out.
        if value[x] > NEG_INF and value[x] - top <= floor - bound:
            keep(value, stamp, trail_at, trail_value, count, x)
            value[x] = NEG_INF
            found = True
    return found


@fast_kernel
def propagate(
    bound, floor, fine, most, var_ptr, factors, slots, neighbour_ptr, neighbours, theta, value, first_msg, first_top,
    joint, best, moved, queue, queued, stamp, trail_at, trail_value, count,
):  # fmt: skip
    """Renew the queued factors, and those that their changes reach, until all are done or the bound is not above floor.

    Changes below `fine` are not passed on, and after `most` renewals only new zeros are. Returns the bound, -inf when
    the node is done with.
    """
    done = 0
    num_vars = len(var_ptr) - 1
    count[CULPRIT] = -1
    if not bound > floor:
        empty(queue, queued, count)
        return NEG_INF
    while True:
        while count[QUEUE_SIZE] > 0:
            p = queue[count[QUEUE_HEAD]]
            count[QUEUE_HEAD] += 1
            if count[QUEUE_HEAD] == len(queue):
                count[QUEUE_HEAD] = 0
            count[QUEUE_SIZE] -= 1
            queued[p] = False
            rise = renew(
                p, factors, slots, theta, value, first_msg, first_top, joint, best, stamp, trail_at, trail_value, count,
                moved,
            )  # fmt: skip
            bound += rise
            done += 1
            if not bound > floor:
                count[CULPRIT] = p
                empty(queue, queued, count)
                count[UPDATES] += done
                return NEG_INF
            for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
                change = moved[s - factors[p, SLOT]]
                i = slots[s, VAR]
                if rule_out(i, floor, bound, var_ptr, value, first_top, stamp, trail_at, trail_value, count):
                    change = math.inf
                    push(queue, queued, count, p)
                if change > fine and (done < most or change == math.inf):
                    for r in range(neighbour_ptr[i], neighbour_ptr[i + 1]):
                        if neighbours[r] != p:
                            push(queue, queued, count, neighbours[r])
        for i in range(num_vars):
            if rule_out(i, floor, bound, var_ptr, value, first_top, stamp, trail_at, trail_value, count):
                for r in range(neighbour_ptr[i], neighbour_ptr[i + 1]):
                    push(queue, queued, count, neighbours[r])
        if count[QUEUE_SIZE] == 0:
            break
    count[UPDATES] += done
    bound = 0.0
    for i in range(num_vars):  # afresh: the running sum gathers rounding
        bound += value[first_top + i]
    return bound


@fast_kernel
def decide(
    i, x, assign, var_ptr, neighbour_ptr, neighbours, value, first_top, queue, queued, stamp, trail_at, trail_value,
    count,
):  # fmt: skip
    """Leave variable i only its state x, or only the others; what the bound changes by, -inf when none is left."""
    peak = NEG_INF
    for y in range(var_ptr[i], var_ptr[i + 1]):
        if (y - var_ptr[i] == x) != assign:
            if value[y] > NEG_INF:
                keep(value, stamp, trail_at, trail_value, count, y)
                value[y] = NEG_INF
        else:
            peak = max(peak, value[y])
    rise = peak - value[first_top + i]
    if peak > NEG_INF:
        keep(value, stamp, trail_at, trail_value, count, first_top + i)
        value[first_top + i] = peak
        for r in range(neighbour_ptr[i], neighbour_ptr[i + 1]):
            push(queue, queued, count, neighbours[r])
    return rise
