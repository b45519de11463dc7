# mypy: ignore-errors
"""The parallel schedule for any table: a few long loops over all edge states, which the compiler vectorises.

The update is that of `factor_messages`, but exp, log and damping run over whole vectors. The edge states of unary
factors come first in flat order and never change: loops start after them, at `first_pair_state`.
"""

import math

from equifactor.factors.factor_messages import (
    MARGIN,
    NEG_INF,
    SPREAD,
    MessageState,
    add_up,
    log_messages,
    max_pair,
    max_products,
    normalize_max,
    receive,
    receive_all,
    sum_products,
)
from equifactor.factors.group_kernels import update_all_structured
from equifactor.factors.kind_rows import FIRST_SLOT, FIRST_STATE, NUM_TABLES
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE, Layout, Tables
from equifactor.kernels.fastmath import MIN_EXP, TINY, exp_, get, log_, put
from equifactor.kernels.jit import fast_kernel, reordering_kernel
from equifactor.solvers.messages.lanes import Lanes, sum_in_lanes


@fast_kernel
def sweep_parallel(count, layout, tables, lanes, maxima, kinds, state, damping, floor, change, check):
    """Make several sweeps, each updating all messages from the same old sums.

    Args:
        count: number of sweeps.
        layout: the index arrays of the graph.
        tables: its potentials.
        lanes: the linear potentials, or None for the max semiring; which of the two is decided when the kernel is
            compiled.
        maxima: None for sums, see `update_factor`.
        kinds: the fields of `KindRows`, or None where all factors are tables; also decided when the kernel is
            compiled.
        state: messages, updated in place, and scratch.
        damping: share of the old log message that is kept.
        floor: log messages below this are raised to it, except true zeros.
        change: [G] raised to the largest undamped change of a probability in the last sweep, if `check` is set.
        check: whether to measure the change.
    """
    layout, tables, state = Layout(*layout), Tables(*tables), MessageState(*state)
    msg, total, zeros, q, out = state.msg, state.total, state.zeros, state.q, state.out
    # Views of the edge states after the unary factors: an index that starts anywhere might be negative to the compiler.
    start = layout.first_pair_state
    msg_, graph_ = msg[start:], layout.graph_of_edge_state[start:]
    factors, slots, stop = layout.factors, layout.slots, len(msg)
    if kinds is not None:  # tables come first
        factors, slots, stop = factors[: kinds[NUM_TABLES] + 1], slots[: kinds[FIRST_SLOT]], kinds[FIRST_STATE]
    q_, out_ = q[start:stop], out[start:stop]
    flushed, large = False, False
    for n in range(count):
        any_zero = add_up(layout.edges, msg, total, zeros)
        if maxima is not None:
            _max_messages(factors, slots, tables.log_phi, msg, total, zeros, q, out, state.at, state.before)
            if kinds is not None:
                update_all_structured(
                    layout.factors, layout.slots, tables.log_phi, tables.log_phi, kinds, msg, total, zeros, q, out, True
                )  # fmt: skip
            new_, scratch_ = out[start:], q[start:]
        if lanes is not None:
            linear = Lanes(*lanes)
            if layout.max_arity == 2:
                state_ = layout.state_of_edge_state[start:stop]
                flushed, large = _receive_pairs(layout.var_ptr, state_, msg[start:stop], total, zeros, any_zero, q_)
            if layout.max_arity != 2 or (large and floor > NEG_INF):
                # With zeros in the tables, the range of a table does not bound a message. A large entry may make a sum
                # so large that dividing by it gives a zero that no table contains.
                flushed = _receive_scaled(slots, msg, total, zeros, q, q_, layout.max_arity)
            least = math.exp(MARGIN - SPREAD / max(1, layout.max_arity - 1)) if flushed else 0.0
            num_bad = sum_in_lanes(linear.groups, linear.blocks, tables.wide, q, out, least)
            num_bad += _sum_tables(linear.others, layout, linear.phi, tables.wide, state, least)
            for x in range(len(out_)):
                r = out_[x]
                ln = log_(r if r > 0.0 else 1.0)
                q_[x] = ln if r > 0.0 else NEG_INF
            if num_bad > 0:
                _repair(factors, slots, tables.log_phi, state)
            if kinds is not None:
                update_all_structured(
                    layout.factors, layout.slots, tables.log_phi, linear.phi, kinds, msg, total, zeros, out, q, False
                )  # fmt: skip
            new_, scratch_ = q[start:], out[start:]
        if check and n == count - 1:
            for x in range(len(msg_)):
                scratch_[x] = abs(exp_(max(new_[x], MIN_EXP)) - exp_(max(msg_[x], MIN_EXP)))
            for x in range(len(msg_)):
                put(change, graph_[x], max(get(change, graph_[x]), scratch_[x]))
        for x in range(len(msg_)):
            finite = max(new_[x], floor)
            gap = msg_[x] - finite
            kept = damping * gap if (abs(gap) > TINY) & (damping > 0.0) else 0.0
            msg_[x] = finite + kept if new_[x] > NEG_INF else NEG_INF


@fast_kernel
def _receive_pairs(var_ptr, state, msg, total, zeros, any_zero, q):
    """Fill q with linear incoming messages of pairs; return whether one was too small, and whether one is large.

    Messages are scaled by the largest sum of the variable instead of their own. Without zeros, the largest entry is
    then between 1 and the exponential of the table's range, so that one flat loop suffices for all.
    """
    for i in range(len(var_ptr) - 1):
        top = NEG_INF
        for x in range(var_ptr[i], var_ptr[i + 1]):
            top = max(top, get(total, x))
        for x in range(var_ptr[i], var_ptr[i + 1]):
            put(total, x, get(total, x) - top)
    if any_zero:
        for x in range(len(msg)):
            own = 1 if msg[x] == NEG_INF else 0
            v = get(total, state[x]) - (0.0 if own else msg[x])
            q[x] = v if get(zeros, state[x]) == own else NEG_INF
    else:
        for x in range(len(msg)):
            q[x] = get(total, state[x]) - msg[x]
    flushed, large = 0, 0
    # apart from the gather above, so that it vectorises; a count vectorises, a minimum does not
    for x in range(len(msg)):
        v = q[x]
        flushed += (v <= -SPREAD) & (v > NEG_INF)
        large += v > MARGIN
        e = exp_(min(max(v, MIN_EXP), -MIN_EXP))
        q[x] = e if v > -SPREAD else 0.0
    return flushed > 0, large > 0


@fast_kernel
def _receive_scaled(slots, msg, total, zeros, q, q_, arity):
    """Fill q with linear incoming messages, each scaled to a largest entry of 1; return whether one was too small."""
    for s in range(len(slots)):
        m, d = slots[s, MSG], slots[s, CARD]
        top = receive(m, slots[s, STATE], d, msg, total, zeros, q)
        shift = top if top > NEG_INF else 0.0
        for x in range(m, m + d):
            put(q, x, get(q, x) - shift)
    threshold = -SPREAD / max(1, arity - 1)
    flushed = 0
    for x in range(len(q_)):
        v = q_[x]
        flushed += (v <= threshold) & (v > NEG_INF)
        e = exp_(max(v, MIN_EXP))
        q_[x] = e if v > threshold else 0.0
    return flushed > 0


@reordering_kernel
def _sum_tables(which, layout, phi, wide, state, least):
    """Compute normalised linear messages of some factors; mark those that may have underflowed by -1 and count them."""
    factors, slots = layout.factors, layout.slots
    q, out, at, before = state.q, state.out, state.at, state.before
    num_bad = 0
    for p in which:
        first, last = factors[p, SLOT], factors[p + 1, SLOT]
        entry = factors[p, ENTRY]
        if last - first == 2:
            m1, d1 = slots[first, MSG], slots[first, CARD]
            m2, d2 = slots[first + 1, MSG], slots[first + 1, CARD]
            for y in range(d2):
                put(out, m2 + y, 0.0)
            for x in range(d1):
                row = entry + x * d2
                weight = get(q, m1 + x)
                dot = 0.0
                for y in range(d2):
                    t = get(phi, row + y)
                    dot += t * get(q, m2 + y)
                    put(out, m2 + y, get(out, m2 + y) + t * weight)
                put(out, m1 + x, dot)
        else:
            sum_products(slots, first, last, phi, entry, factors[p + 1, ENTRY], q, out, at, before)
        bad = wide[p]
        for s in range(first, last):
            m, d = slots[s, MSG], slots[s, CARD]
            scale = 0.0
            small = 0
            for x in range(m, m + d):
                scale += get(out, x)
                small += get(out, x) < least
            bad = bad or scale == 0.0 or small > 0
            inverse = 1.0 / scale if scale > 0.0 else 0.0
            for x in range(m, m + d):
                put(out, x, get(out, x) * inverse)
        if bad:
            num_bad += 1
            put(out, slots[first, MSG], -1.0)
    return num_bad


@fast_kernel
def _repair(factors, slots, log_phi, state):
    """Compute the log messages of the marked factors in the log domain, into q, with `out` as scratch."""
    msg, total, zeros, q, out = state.msg, state.total, state.zeros, state.q, state.out
    for p in range(len(factors) - 1):
        first, last = factors[p, SLOT], factors[p + 1, SLOT]
        if last - first >= 2 and out[slots[first, MSG]] < 0.0:
            receive_all(slots, first, last, msg, total, zeros, out)
            log_messages(slots, first, last, log_phi, factors[p, ENTRY], factors[p + 1, ENTRY], out, q)


@fast_kernel
def _max_messages(factors, slots, log_phi, msg, total, zeros, q, out, at, before):
    """Fill `out` with the normalised log messages of all factors of two or more variables, max semiring.

    The body of `update_max` is written out: with a call instead, the compiled code takes 15 % longer.
    """
    for p in range(len(factors) - 1):
        first, last = factors[p, SLOT], factors[p + 1, SLOT]
        if last - first < 2:
            continue
        for s in range(first, last):
            receive(slots[s, MSG], slots[s, STATE], slots[s, CARD], msg, total, zeros, q)
        if last - first == 2:
            m1, m2 = slots[first, MSG], slots[first + 1, MSG]
            max_pair(log_phi, factors[p, ENTRY], m1, slots[first, CARD], m2, slots[first + 1, CARD], q, out)
        else:
            max_products(slots, first, last, log_phi, factors[p, ENTRY], factors[p + 1, ENTRY], q, out, at, before)
        for s in range(first, last):
            normalize_max(slots[s, MSG], slots[s, CARD], out)
