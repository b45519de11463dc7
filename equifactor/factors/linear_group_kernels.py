# mypy: ignore-errors
"""Messages of all noisy-ors, counts or sparse tables of a batch at once: in linear numbers wherever these do.

Exponentials and logs run over all of them in one vectorised loop each. Factors whose messages are too small for linear
numbers, or beyond what the quick maxima take, are left to the update of one factor in logs.
"""

import numpy as np

from equifactor.factors.chain_kernels import NEG_INF, cap_of_count, to_logs
from equifactor.factors.count import Counting
from equifactor.factors.factor_messages import receive
from equifactor.factors.linear_kernels import (
    LEAST,
    count_maxima,
    count_sums,
    is_plain_or,
    listed_sums,
    or_maxima,
    or_sums,
)
from equifactor.factors.noisy_or import NoisyOr
from equifactor.factors.sparse import SparseTable
from equifactor.factors.structured_kernels import update_structured
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE
from equifactor.kernels.fastmath import MIN_EXP, exp_, get, put
from equifactor.kernels.jit import fast_kernel

NOISY_OR, COUNT, SPARSE = NoisyOr.number, Counting.number, SparseTable.number


@fast_kernel
def update_linear_group(begin, end, factors, slots, log_phi, phi, rows, msg, total, zeros, q, out, is_max):
    """Fill `out` with the normalised log messages of factors `begin` to `end`, which are of one of the three kinds.

    Args:
        begin: the first factor.
        end: the one behind the last.
        factors: as in `Layout`.
        slots: as in `Layout`.
        log_phi: [T] the log values of all factors.
        phi: [T] linear values, the largest of each factor 1; not read in the max semiring.
        rows: the fields of `KindRows`.
        msg: [S] messages to the variables.
        total: [X] sums of the finite ones.
        zeros: [X] numbers of the others.
        q: [S] scratch.
        out: [S] as said.
        is_max: the semiring.
    """
    kind, word_ptr, words = rows[0][begin], rows[1], rows[2]
    first, last = factors[begin, SLOT], factors[end, SLOT]
    m, stop = slots[first, MSG], slots[last - 1, MSG] + slots[last - 1, CARD]
    empty = False  # A variable without any possible state has no linear message.
    for s in range(first, last):
        x, d = slots[s, MSG], slots[s, CARD]
        top = receive(x, slots[s, STATE], d, msg, total, zeros, q)
        shift = top if top > NEG_INF else 0.0
        empty |= top == NEG_INF
        for n in range(x, x + d):
            put(q, n, get(q, n) - shift)
    if not is_max:
        _to_linear(m, stop, q)
        if kind != SPARSE:
            for x in range(m, stop, 2):
                scale = 1.0 / (get(q, x) + get(q, x + 1))
                put(q, x, get(q, x) * scale)
                put(q, x + 1, get(q, x + 1) * scale)
    longest = 0
    for p in range(begin, end):
        longest = max(longest, factors[p + 1, SLOT] - factors[p, SLOT])
    scratch = np.empty(longest + 1)
    left = np.zeros(end - begin, np.bool_)  # those for the update in logs
    for p in range(begin, end):
        if empty:
            left[p - begin] = True
            continue
        slot, start, word = factors[p, SLOT], factors[p, ENTRY], word_ptr[p]
        x, k = slots[slot, MSG], factors[p + 1, SLOT] - slot
        least = 1.0
        if kind == COUNT:
            cap, fails = cap_of_count(log_phi, start, k)
            if len(scratch) < (k + 1) * (cap + 1):
                scratch = np.empty((k + 1) * (cap + 1))
            if is_max:
                count_maxima(x, k, cap, fails, log_phi, start, words, word, scratch, q, out)
            else:
                least = count_sums(x, k, cap, fails, phi, start, words, word, scratch, q, out)
        elif kind == NOISY_OR:
            if not is_max:
                least = or_sums(x, k, log_phi, start, words, word, q, out)
            elif is_plain_or(k, log_phi, start, words, word):
                or_maxima(x, k, words, word, q, out)
            else:
                least = 0.0
        elif is_max or log_phi[start] > NEG_INF:
            least = 0.0
        else:
            least = listed_sums(factors, slots, p, phi, words, word, scratch, q, out)
        left[p - begin] = least < LEAST
    if not is_max and not empty:
        for p in range(begin, end):
            if left[p - begin]:  # What was not written may be no number.
                for n in range(slots[factors[p, SLOT], MSG], _end_of(p, factors, slots)):
                    put(out, n, 1.0)
        to_logs(m, stop, out)
    for p in range(begin, end):
        if left[p - begin]:
            update_structured(factors, slots, log_phi, rows, p, msg, total, zeros, q, out, is_max)
        elif is_max:
            for n in range(slots[factors[p, SLOT], MSG], _end_of(p, factors, slots), 2):
                top = max(get(out, n), get(out, n + 1))
                shift = top if top > NEG_INF else 0.0
                put(out, n, get(out, n) - shift)
                put(out, n + 1, get(out, n + 1) - shift)


@fast_kernel
def _end_of(p, factors, slots):
    """The place behind the edge states of a factor."""
    s = factors[p + 1, SLOT] - 1
    return slots[s, MSG] + slots[s, CARD]


@fast_kernel
def _to_linear(m, stop, q):
    """The exponentials of q[m:stop], at most 0 each; what is too small becomes zero, which `LEAST` makes up for."""
    for x in range(m, stop):
        v = get(q, x)
        e = exp_(max(v, MIN_EXP))
        put(q, x, e if v > MIN_EXP else 0.0)
