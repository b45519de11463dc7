# mypy: ignore-errors
"""Sequential schedules of message passing: in a given order, and largest residual first.

One sweep makes as many factor updates as there are factors. A factor update renews all its outgoing messages, which are
normalised logs. Messages of factors of arity 0 and 1 never change and are skipped. The sums at the variables are
recomputed at the beginning of each sweep and then kept up to date.

Tree-reweighted messages count `weight [F]` times at their variables; in belief propagation `weight` is empty.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equifactor.base.typing import FloatArray, IntArray
from equifactor.factors.factor_messages import MessageState, add_up, update_factor
from equifactor.factors.kind_rows import KIND
from equifactor.factors.structured_kernels import update_structured
from equifactor.graph.layout import CARD, MSG, SLOT, STATE, VAR, Layout, Tables
from equifactor.kernels.fastmath import MIN_EXP, NEG_INF, TINY, exp_, get, put
from equifactor.kernels.heaps import raise_key, set_key
from equifactor.kernels.jit import fast_kernel, inlined
from equifactor.kernels.pointers import by_number, ptr_of


class ResidualQueue(NamedTuple):
    """The state of the residual schedule beside the messages: the factors around each variable, and the queue."""

    around_ptr: IntArray  # [V+1] the factors around variable i are around[around_ptr[i] : around_ptr[i + 1]]
    around: IntArray  # [E]
    key: FloatArray  # [F + 3] priorities in the order of a heap, see `kernels.heaps`
    item: IntArray  # [F] the factors in the order of the heap
    place: IntArray  # [F] position of each factor in the heap


def residual_queue(
    num_vars: int, num_factors: int, var_of_edge: NDArray[np.integer], factor_of_edge: IntArray
) -> ResidualQueue:
    """Return the queue of the factors on the given edges, each with priority 0; other factors never reach the top."""
    waits = np.zeros(num_factors, bool)
    waits[factor_of_edge] = True
    item = np.argsort(~waits, kind="stable")
    place = np.empty(num_factors, np.int64)
    place[item] = np.arange(num_factors)
    key = np.full(num_factors + 3, -np.inf)
    key[: np.count_nonzero(waits)] = 0.0
    return ResidualQueue(
        around_ptr=ptr_of(np.bincount(var_of_edge, minlength=num_vars)),
        around=factor_of_edge[by_number(var_of_edge)],
        key=key,
        item=item,
        place=place,
    )


@fast_kernel
def add_up_weighted(factors, slots, weight, msg, total, zeros):
    """Add up messages as `add_up` does, but count those of factor a weight[a] times.

    Every -inf counts twice in `zeros`, so that `receive` rules the state out for its own factor as well.
    """
    total[:] = 0.0
    zeros[:] = 0
    for p in range(len(factors) - 1):
        for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
            for x in range(slots[s, CARD]):
                m = msg[slots[s, MSG] + x]
                total[slots[s, STATE] + x] += 0.0 if m == NEG_INF else weight[p] * m
                zeros[slots[s, STATE] + x] += 2 if m == NEG_INF else 0


@fast_kernel
def sweep_in_order(layout, tables, phi, maxima, kinds, weight, state, damping, floor, order, change):
    """Update factor after factor in the given order, each from the newest messages.

    Args:
        layout: the index arrays of the graph.
        tables: its potentials, divided by the weight if there is one.
        phi: [T] linear potentials, or None for the max semiring.
        maxima: None for sums, see `update_factor`.
        kinds: the fields of `KindRows`, or None where all factors are tables.
        weight: [F] how often the messages of each factor count, or [0] if each counts once.
        state: messages and sums, updated in place.
        damping: share of the old log message that is kept; with weights, more where a factor needs it to converge.
        floor: log messages below this are raised to it, except true zeros.
        order: [F] the factors.
        change: [G] raised to the largest undamped change of a probability.
    """
    layout, tables, state = Layout(*layout), Tables(*tables), MessageState(*state)
    factors, slots, graph_of_factor = layout.factors, layout.slots, layout.graph_of_factor
    log_phi, wide = tables.log_phi, tables.wide
    msg, total, zeros, q, out, at, before = state
    weighted = len(weight) > 0
    if weighted:
        add_up_weighted(factors, slots, weight, msg, total, zeros)
    else:
        add_up(layout.edges, msg, total, zeros)
    for n in range(len(order)):
        p = order[n]
        first, last = factors[p, SLOT], factors[p + 1, SLOT]
        if last - first < 2:
            continue
        _update(factors, slots, log_phi, phi, maxima, wide, kinds, p, msg, total, zeros, q, out, at, before)
        g = graph_of_factor[p]
        change[g] = max(change[g], _message_change(first, last, slots, msg, out))
        kept, times, per_zero = damping, 1.0, 1
        if weighted:
            times, per_zero = weight[p], 2
            kept = max(damping, _least_damping(times, last - first))
        _store_and_add(slots, first, last, msg, out, total, zeros, kept, floor, times, per_zero)


@fast_kernel
def sweep_residual(layout, tables, phi, maxima, kinds, state, damping, floor, queue, tolerance, change):
    """Update the factor of largest priority: how far the messages it receives have moved since its last update.

    The number of updates is the number of factors in the queue. A priority estimates the residual without computing the
    update, which makes a sweep several times cheaper than computing every neighbour's. Before convergence is reported,
    every residual is computed exactly. Residuals are undamped, so damping slows the updates but not the test of
    convergence.

    The arguments are those of `sweep_in_order`; the sweep ends early when no residual is above the tolerance.
    """
    layout, tables, state, queue = Layout(*layout), Tables(*tables), MessageState(*state), ResidualQueue(*queue)
    factors, slots, graph_of_factor = layout.factors, layout.slots, layout.graph_of_factor
    log_phi, wide = tables.log_phi, tables.wide
    msg, total, zeros, q, out, at, before = state
    around_ptr, around, key, item, place = queue
    add_up(layout.edges, msg, total, zeros)
    num_factors, updates = len(place), 0
    for n in range(num_factors):
        updates += key[n] > NEG_INF
    left = updates
    checked = -1  # the factor whose residual is computed exactly next, -1 between such checks
    while left > 0:
        if checked < 0 and key[0] <= tolerance:
            checked = 0
        while 0 <= checked < num_factors and factors[checked + 1, SLOT] - factors[checked, SLOT] < 2:
            checked += 1
        if checked == num_factors:
            checked = -1
            if key[0] <= tolerance:
                break
        p = checked if checked >= 0 else item[0]
        # The only update in the loop: its code is inlined, and would be compiled twice.
        _update(factors, slots, log_phi, phi, maxima, wide, kinds, p, msg, total, zeros, q, out, at, before)
        if checked >= 0:
            set_key(key, item, place, p, _message_change(factors[p, SLOT], factors[p + 1, SLOT], slots, msg, out))
            checked += 1
            continue
        left -= 1
        residual = 0.0
        for s in range(factors[p, SLOT], factors[p + 1, SLOT]):
            moved = _message_change(s, s + 1, slots, msg, out)
            residual = max(residual, moved)
            if moved > TINY:
                tell_others(around_ptr, around, key, item, place, slots[s, VAR], p, (1.0 - damping) * moved)
        set_key(key, item, place, p, damping * residual)  # the part of the change that damping held back
        _store_and_add(slots, factors[p, SLOT], factors[p + 1, SLOT], msg, out, total, zeros, damping, floor, 1.0, 1)
    for n in range(updates):
        g = graph_of_factor[item[n]]
        change[g] = max(change[g], key[n])


@inlined
def _update(factors, slots, log_phi, phi, maxima, wide, kinds, p, msg, total, zeros, q, out, at, before):
    """Update a factor of any kind; whether there are structured factors is decided when a kernel is compiled."""
    is_table = True
    if kinds is not None:
        is_table = kinds[KIND][p] == 0
        if not is_table:
            update_structured(factors, slots, log_phi, kinds, p, msg, total, zeros, q, out, maxima is not None)
    if is_table:
        update_factor(factors, slots, log_phi, phi, maxima, wide, p, msg, total, zeros, q, out, at, before)


@inlined
def tell_others(around_ptr, around, key, item, place, i, p, moved):
    """Raise the priority of the factors of variable i other than p by how far their incoming message has moved."""
    for r in range(get(around_ptr, i), get(around_ptr, i + 1)):
        b = get(around, r)
        if b != p:
            raise_key(key, item, place, b, moved)


@inlined
def _message_change(first, last, slots, msg, out):
    """Return the largest change in probability between the current messages of some slots and `out`."""
    change = 0.0
    for s in range(first, last):
        m = slots[s, MSG]
        for x in range(m, m + slots[s, CARD]):
            change = max(change, abs(exp_(max(get(out, x), MIN_EXP)) - exp_(max(get(msg, x), MIN_EXP))))
    return change


@inlined
def _least_damping(weight, arity):
    """Return the damping at which the messages of one factor converge, for any table.

    The messages that a factor receives hold weight - 1 times its own last messages. If a table ties its variables
    together, each new message holds up to `echo` times the last messages with the other sign. For three variables and
    more the echo grows with every sweep, without limit around zeros. With this damping at most half of the echo
    returns: kept - (1 - kept) echo is at least -1/2. For pairs the damping is at most 1/4. Cancelling the echo at once,
    by echo / (1 + echo), takes more sweeps.
    """
    echo = (1.0 - weight) * (arity - 1)
    return (echo - 0.5) / (echo + 1.0)


@inlined
def _damped(old, new, damping):
    """Return `new + damping (old - new)`; if either is zero, the result is zero, as in `tensors.damp`."""
    gap = old - (0.0 if new == NEG_INF else new)
    keep_new = damping == 0.0 or new == NEG_INF or abs(gap) < TINY
    return new if keep_new else new + damping * gap


@inlined
def _store_and_add(slots, first, last, msg, out, total, zeros, damping, floor, weight, per_zero):
    """Write the damped messages of one factor and bring the sums of its variables up to date.

    A message counts `weight` times in `total`, and a zero `per_zero` times in `zeros`.
    """
    for s in range(first, last):
        m, first_state = slots[s, MSG], slots[s, STATE]
        for x in range(slots[s, CARD]):
            old = get(msg, m + x)
            new = get(out, m + x)
            new = _damped(old, max(new, floor) if new > NEG_INF else new, damping)
            moved = (0.0 if new == NEG_INF else new) - (0.0 if old == NEG_INF else old)
            put(total, first_state + x, get(total, first_state + x) + weight * moved)
            met = (new == NEG_INF) - (old == NEG_INF)
            put(zeros, first_state + x, get(zeros, first_state + x) + per_zero * met)
            put(msg, m + x, new)
