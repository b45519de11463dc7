# mypy: ignore-errors
"""Sequential schedules of belief propagation: in a given order, and largest residual first.

One sweep is as many factor updates as there are factors; a factor update renews all its outgoing messages. Messages
`msg [S]` are normalised logs; `total [X]` and `zeros [X]` sum the finite and count the -inf ones per state. Messages
of factors of arity 0 and 1 never change and are skipped. `q`, `out` [S], `at` and `before` are scratch. The caller
renews the sums before each sweep.
"""

import math

from equifactor.graph.layout import CARD, MSG, SLOT, STATE, VAR
from equifactor.numerics.factor_messages import update_max, update_sum
from equifactor.numerics.fastmath import MIN_EXP, TINY, exp_, get, put
from equifactor.numerics.jit import fast_kernel, inlined
from equifactor.numerics.queue import raise_key, set_key

NEG_INF = -math.inf


@fast_kernel
def add_up(edges, msg, total, zeros):
    """total and zeros of every state from scratch, which removes what rounding has added; whether any zero was met."""
    total[:] = 0.0
    zeros[:] = 0
    any_zero = False
    for e in range(len(edges)):
        m, state = edges[e, MSG], edges[e, STATE]
        for x in range(edges[e, CARD]):
            v = get(msg, m + x)
            is_zero = v == NEG_INF
            any_zero |= is_zero
            put(total, state + x, get(total, state + x) + (0.0 if is_zero else v))
            put(zeros, state + x, get(zeros, state + x) + (1 if is_zero else 0))
    return any_zero


@inlined
def message_change(first, last, slots, msg, out):
    """Largest change in probability between the current messages of some slots and `out`."""
    change = 0.0
    for s in range(first, last):
        m = slots[s, MSG]
        for x in range(m, m + slots[s, CARD]):
            change = max(change, abs(exp_(max(get(out, x), MIN_EXP)) - exp_(max(get(msg, x), MIN_EXP))))
    return change


@inlined
def damped(old, new, damping):
    """`new + damping (old - new)`; a zero in either wins, as in `ops.damp`."""
    gap = old - (0.0 if new == NEG_INF else new)
    keep_new = damping == 0.0 or new == NEG_INF or abs(gap) < TINY
    return new if keep_new else new + damping * gap


@inlined
def store_and_add(factors, slots, p, msg, out, damping, floor, total, zeros):
    """Write the damped messages of one factor and bring the sums of its variables up to date."""
    for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
        m, state = slots[s, MSG], slots[s, STATE]
        for x in range(slots[s, CARD]):
            old = get(msg, m + x)
            new = get(out, m + x)
            new = damped(old, max(new, floor) if new > NEG_INF else new, damping)
            moved = (0.0 if new == NEG_INF else new) - (0.0 if old == NEG_INF else old)
            put(total, state + x, get(total, state + x) + moved)
            put(zeros, state + x, get(zeros, state + x) + (new == NEG_INF) - (old == NEG_INF))
            put(msg, m + x, new)


@inlined
def update_factor(factors, slots, log_phi, phi, wide, p, msg, total, zeros, q, out, at, before):
    """Messages of one factor into `out`. No `phi` means the max semiring: decided when a kernel is compiled."""
    if phi is None:
        update_max(factors, slots, log_phi, p, msg, total, zeros, q, out, at, before)
    else:
        update_sum(factors, slots, log_phi, phi, wide, p, msg, total, zeros, q, out, at, before)


@fast_kernel
def sweep_in_order(
    factors, slots, log_phi, phi, wide, msg, total, zeros, q, out, at, before, damping, floor, graph_of_factor, change,
    order,
):  # fmt: skip
    """Factor after factor in the given order, each seeing the newest messages."""
    for p in order:
        if factors[p + 1, SLOT] - factors[p, SLOT] < 2:
            continue
        update_factor(factors, slots, log_phi, phi, wide, p, msg, total, zeros, q, out, at, before)
        g = graph_of_factor[p]
        change[g] = max(change[g], message_change(factors[p, SLOT], factors[p + 1, SLOT], slots, msg, out))
        store_and_add(factors, slots, p, msg, out, damping, floor, total, zeros)


@fast_kernel
def sweep_residual(
    factors, slots, log_phi, phi, wide, msg, total, zeros, q, out, at, before, damping, floor, graph_of_factor, change,
    around_ptr, around, key, item, place, tolerance,
):  # fmt: skip
    """Always the factor with the largest priority: how far the messages it receives have moved since its last update.

    As many updates as factors wait in the queue (key, item, place: see `kernels.queue`), those around variable i at
    around[around_ptr[i] : around_ptr[i + 1]]. A priority estimates the residual without computing the update, which
    makes a sweep several times cheaper than pricing every neighbour; before the verdict of convergence every residual
    is computed exactly. Residuals are undamped, so damping slows the updates but not the verdict.
    """
    updates = 0
    for n in range(len(place)):
        updates += key[n] > NEG_INF
    for _ in range(updates):
        if key[0] <= tolerance:
            for p in range(len(place)):
                if factors[p + 1, SLOT] - factors[p, SLOT] >= 2:
                    update_factor(factors, slots, log_phi, phi, wide, p, msg, total, zeros, q, out, at, before)
                    residual = message_change(factors[p, SLOT], factors[p + 1, SLOT], slots, msg, out)
                    set_key(key, item, place, p, residual)
            if key[0] <= tolerance:
                break
        p = item[0]
        update_factor(factors, slots, log_phi, phi, wide, p, msg, total, zeros, q, out, at, before)
        residual = 0.0
        for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
            moved = message_change(s, s + 1, slots, msg, out)
            residual = max(residual, moved)
            if moved > TINY:
                i = slots[s, VAR]
                for r in range(around_ptr[i], around_ptr[i + 1]):
                    if around[r] != p:
                        raise_key(key, item, place, around[r], (1.0 - damping) * moved)
        set_key(key, item, place, p, damping * residual)  # what damping has left to do
        store_and_add(factors, slots, p, msg, out, damping, floor, total, zeros)
    for n in range(updates):
        g = graph_of_factor[item[n]]
        change[g] = max(change[g], key[n])
