# mypy: ignore-errors
"""All outgoing messages of one factor, in one pass over its table.

Messages are full-length vectors over the edge states [S]: `msg` are the current messages, `q` those that a factor
receives, and `out` those that it sends. For the sum semiring messages leave the log domain relative to their largest
entry, are multiplied into the scaled table, and return. This takes d exps and logs per message instead of one per table
entry. Numbers could underflow on the way in tables wider than LINEAR_RANGE, or if messages spread wider than the
threshold. These factors take the slow path in the log domain, so the result is the same to rounding for all input. True
zeros are -inf throughout.

The functions are inlined into the schedules: a call between kernels passes seven words per array and counts its
references, which costs several times the work of a binary factor. They take arrays one by one. The references of fields
of a record are counted at every use: sweeps of the max semiring took twice as long on a grid of 90,000 variables.
"""

import math
from typing import NamedTuple

import numpy as np

from equifactor.base.typing import FloatArray, IntArray
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE, VAR, Layout
from equifactor.kernels.fastmath import MIN_EXP, NEG_INF, exp_, get, log_, put
from equifactor.kernels.jit import fast_kernel, inlined, reordering_kernel

SPREAD = 350.0  # Messages of this log range, in nats, times a table of range 300 stay normal numbers.
# In nats. e^-40 is far below rounding, so an entry that was flushed to zero is negligible beside one this much larger.
MARGIN = 40.0


class MessageState(NamedTuple):
    """Messages of a batch with their sums, and the scratch that an update needs."""

    msg: FloatArray  # [S] factor-to-variable log messages
    total: FloatArray  # [X] sum of the finite messages into each variable state
    zeros: IntArray  # [X] number of -inf messages into each variable state
    q: FloatArray  # [S] scratch: the messages that factors receive
    out: FloatArray  # [S] scratch: the messages that factors send
    at: IntArray  # [arity] scratch: the edge state of each slot's current digit
    before: FloatArray  # [arity + 1] scratch: the product of the messages to earlier slots


def message_state(msg: FloatArray, layout: Layout) -> MessageState:
    """Return the state around the messages `msg` [S]; its sums are filled by `add_up`."""
    num_states, arity = layout.var_ptr[-1], max(1, layout.max_arity)
    return MessageState(
        msg=msg,
        total=np.zeros(num_states),
        zeros=np.zeros(num_states, np.int64),
        q=np.empty_like(msg),
        out=np.empty_like(msg),
        at=np.empty(arity, np.int64),
        before=np.empty(arity + 1),
    )


# ---- sums at the variables --------------------------------------------------------------------------------


@fast_kernel
def add_up(edges, msg, total, zeros):
    """Fill total and zeros [X] from scratch, which removes rounding errors; return whether any message is zero."""
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
def receive(first, state, d, msg, total, zeros, q):
    """Set q = m_{j->a}(x), the variable's sum without this factor's own message, and return its largest entry.

    total [X] sums the finite messages into each state, zeros [X] counts the -inf ones.
    """
    top = NEG_INF
    for x in range(d):
        m = get(msg, first + x)
        own = 1 if m == NEG_INF else 0
        v = get(total, state + x) - (0.0 if own else m)
        v = v if get(zeros, state + x) == own else NEG_INF
        put(q, first + x, v)
        top = max(top, v)
    return top


@inlined
def receive_all(slots, first, last, msg, total, zeros, q):
    """Fill q at the slots of one factor."""
    for s in range(first, last):
        receive(slots[s, MSG], slots[s, STATE], slots[s, CARD], msg, total, zeros, q)


# ---- messages of one factor -------------------------------------------------------------------------------


@inlined
def update_factor(factors, slots, log_phi, phi, maxima, wide, p, msg, total, zeros, q, out, at, before):
    """Fill `out` at the slots of factor p with its log messages.

    The semiring is decided when a kernel is compiled: `phi` is None for maxima, and `maxima` is None for sums. Both
    arguments are needed, because Numba drops the code behind a test for None only if the value is None.
    """
    if maxima is not None:
        update_max(factors, slots, log_phi, p, msg, total, zeros, q, out, at, before)
    if phi is not None:
        update_sum(factors, slots, log_phi, phi, wide, p, msg, total, zeros, q, out, at, before)


@inlined
def update_sum(factors, slots, log_phi, phi, wide, p, msg, total, zeros, q, out, at, before):
    """Fill `out` at the slots of factor p with its log messages, sum semiring, normalised to a total of 1."""
    first, last = factors[p, SLOT], factors[p + 1, SLOT]
    start, stop = factors[p, ENTRY], factors[p + 1, ENTRY]
    fine = not wide[p]
    threshold = -SPREAD / max(1, last - first - 1)
    flushed = 0
    for s in range(first, last):
        m, d = slots[s, MSG], slots[s, CARD]
        top = receive(m, slots[s, STATE], d, msg, total, zeros, q)
        fine = fine and top > NEG_INF
        shift = top if top > NEG_INF else 0.0
        for x in range(m, m + d):
            v = get(q, x) - shift
            flushed += (v <= threshold) & (v > NEG_INF)
            e = exp_(max(v, MIN_EXP))
            put(q, x, e if v > threshold else 0.0)
    if last - first == 2:
        sum_pair(slots, first, phi, start, q, out)
    else:
        sum_products(slots, first, last, phi, start, stop, q, out, at, before)
    least = math.exp(threshold + MARGIN) if flushed > 0 else 0.0
    for s in range(first, last):
        fine = _to_log(slots[s, MSG], slots[s, CARD], out, least) and fine
    if not fine:
        receive_all(slots, first, last, msg, total, zeros, q)
        log_messages(slots, first, last, log_phi, start, stop, q, out)


@inlined
def update_max(factors, slots, log_phi, p, msg, total, zeros, q, out, at, before):
    """Fill `out` at the slots of factor p with its log messages, max semiring, normalised to a largest entry of 1."""
    first, last = factors[p, SLOT], factors[p + 1, SLOT]
    start, stop = factors[p, ENTRY], factors[p + 1, ENTRY]
    receive_all(slots, first, last, msg, total, zeros, q)
    if last - first == 2:
        m1, m2 = slots[first, MSG], slots[first + 1, MSG]
        max_pair(log_phi, start, m1, slots[first, CARD], m2, slots[first + 1, CARD], q, out)
    else:
        max_products(slots, first, last, log_phi, start, stop, q, out, at, before)
    for s in range(first, last):
        normalize_max(slots[s, MSG], slots[s, CARD], out)


@inlined
def sum_pair(slots, first, phi, start, q, out):
    """Compute both messages of a pairwise factor: rows times q of the second variable, columns times q of the first."""
    m1, d1 = slots[first, MSG], slots[first, CARD]
    m2, d2 = slots[first + 1, MSG], slots[first + 1, CARD]
    for y in range(d2):
        put(out, m2 + y, 0.0)
    for x in range(d1):
        row = start + x * d2
        weight = get(q, m1 + x)
        for y in range(d2):
            put(out, m2 + y, get(out, m2 + y) + get(phi, row + y) * weight)
    for x in range(d1):
        put(out, m1 + x, dot(phi, start + x * d2, q, m2, d2))


@reordering_kernel
def dot(a, start, b, first, d):
    """Return the sum of products of two stretches; a kernel of its own, as only here additions may be reordered."""
    total = 0.0
    for y in range(d):
        total += get(a, start + y) * get(b, first + y)
    return total


@inlined
def max_pair(log_phi, start, m1, d1, m2, d2, q, out):
    """Compute both messages of a pairwise factor, max semiring."""
    for y in range(d2):
        put(out, m2 + y, NEG_INF)
    for x in range(d1):
        row = start + x * d2
        weight = get(q, m1 + x)
        best = NEG_INF
        for y in range(d2):
            t = get(log_phi, row + y)
            best = max(best, t + get(q, m2 + y))
            put(out, m2 + y, max(get(out, m2 + y), t + weight))
        put(out, m1 + x, best)


@inlined
def _to_log(m, d, out, least):
    """Normalise a linear message and take logs; False when an entry may have lost mass to underflow."""
    scale = 0.0
    small = 0
    for x in range(m, m + d):
        scale += get(out, x)
        small += get(out, x) < least
    if scale == 0.0 or small > 0:
        return False
    for x in range(m, m + d):
        r = get(out, x) / scale
        ln = log_(r if r > 0.0 else 1.0)
        put(out, x, ln if r > 0.0 else NEG_INF)
    return True


@inlined
def normalize_max(m, d, out):
    """Shift a log message to a largest entry of 0; one without support stays as it is."""
    top = NEG_INF
    for x in range(m, m + d):
        top = max(top, get(out, x))
    shift = top if top > NEG_INF else 0.0
    for x in range(m, m + d):
        put(out, x, get(out, x) - shift)


# ---- factors of any arity ---------------------------------------------------------------------------------


@inlined
def sum_products(slots, first, last, phi, start, stop, q, out, at, before):
    """Compute the messages of a factor of any arity: an odometer over the table with products from both ends.

    at [arity] is the edge state of each slot's current digit, before [arity + 1] the product of q over earlier slots.
    """
    arity = last - first
    before[0] = 1.0
    for j in range(arity):
        m = slots[first + j, MSG]
        at[j] = m
        before[j + 1] = before[j] * q[m]
        for x in range(m, m + slots[first + j, CARD]):
            out[x] = 0.0
    for t in range(start, stop):
        after = phi[t]
        for j in range(arity - 1, -1, -1):
            out[at[j]] += before[j] * after
            after *= q[at[j]]
        j = step(slots, first, arity, at)
        for k in range(max(j, 0), arity):
            before[k + 1] = before[k] * q[at[k]]


@inlined
def max_products(slots, first, last, log_phi, start, stop, q, out, at, before):
    """Compute messages of any arity, max semiring: largest log_phi + received of the other slots, not normalised."""
    arity = last - first
    before[0] = 0.0
    for j in range(arity):
        m = slots[first + j, MSG]
        at[j] = m
        before[j + 1] = before[j] + q[m]
        for x in range(m, m + slots[first + j, CARD]):
            out[x] = NEG_INF
    for t in range(start, stop):
        after = log_phi[t]
        for j in range(arity - 1, -1, -1):
            out[at[j]] = max(out[at[j]], before[j] + after)
            after += q[at[j]]
        j = step(slots, first, arity, at)
        for k in range(max(j, 0), arity):
            before[k + 1] = before[k] + q[at[k]]


@inlined
def first_entry(slots, first, arity, at):
    """Set the odometer `at` to the first table entry of the factor whose slots begin at `first`."""
    for j in range(arity):
        at[j] = slots[first + j, MSG]


@inlined
def step(slots, first, arity, at):
    """Advance the odometer `at` to the next table entry; return the first slot that moved, -1 after the last entry."""
    j = arity - 1
    while j >= 0:
        at[j] += 1
        if at[j] < slots[first + j, MSG] + slots[first + j, CARD]:
            break
        at[j] = slots[first + j, MSG]
        j -= 1
    return j


@inlined
def with_messages(value, values, at, arity, left_out):
    """Return a table entry plus the edge-state `values` [S] of its digits, without slot `left_out` (-1: all slots)."""
    for j in range(arity):
        value += values[at[j]] if j != left_out else 0.0
    return value


@inlined
def with_agreeing_messages(value, values, at, slots, first, arity, states):
    """Return `with_messages` of all slots; -inf if the entry contradicts the states [V] fixed so far (-1: free)."""
    for j in range(arity):
        fixed = states[slots[first + j, VAR]]
        agrees = fixed < 0 or at[j] - slots[first + j, MSG] == fixed
        value += values[at[j]] if agrees else NEG_INF
    return value


@inlined
def log_add(top, scaled, value):
    """Return one more term of a log-sum-exp that is kept as its largest term and the sum of exp(term - largest)."""
    if value > top:
        scaled = (scaled * math.exp(top - value) if top > NEG_INF else 0.0) + 1.0
        top = value
    elif value > NEG_INF:
        scaled += math.exp(value - top)
    return top, scaled


@fast_kernel
def log_messages(slots, first, last, log_phi, start, stop, q, out):
    """Compute messages in the log domain alone, sum semiring: right for any range, several times slower.

    The maxima come first; a second walk over the table sums exp(entry - maximum).
    """
    arity = last - first
    at = np.empty(arity, np.int64)
    max_products(slots, first, last, log_phi, start, stop, q, out, at, np.empty(arity + 1))
    first_entry(slots, first, arity, at)
    width = 0
    for j in range(arity):
        width = max(width, slots[first + j, CARD])
    total = np.zeros((arity, width))
    for t in range(start, stop):
        for j in range(arity):
            value = with_messages(log_phi[t], q, at, arity, j)
            top = out[at[j]]
            if top > NEG_INF:
                total[j, at[j] - slots[first + j, MSG]] += math.exp(value - top)
        step(slots, first, arity, at)
    for j in range(arity):
        m, d = slots[first + j, MSG], slots[first + j, CARD]
        best = NEG_INF
        for x in range(d):
            if out[m + x] > NEG_INF:
                out[m + x] += math.log(total[j, x])
            best = max(best, out[m + x])
        if best > NEG_INF:
            scale = 0.0
            for x in range(d):
                scale += math.exp(out[m + x] - best)
            scale = best + math.log(scale)
            for x in range(d):
                out[m + x] -= scale
