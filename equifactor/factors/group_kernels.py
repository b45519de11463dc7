# mypy: ignore-errors
"""Messages of all structured factors of a batch at once: long loops over edge states, which the compiler vectorises.

The update of one factor at a time spends more time on the call than on a parity of six bits. Exponentials and logs run
over all factors of a kind in one loop each. Factors whose messages are too small for linear numbers, and factors that
the quick maxima do not cover, are left to the update of one factor in logs.
"""

import numpy as np

from equifactor.factors.clause.clause_kernels import WIDEST_VALUE, clause_messages, clause_sums
from equifactor.factors.count.count_kernels import cap_of_count, count_maxima, count_sums
from equifactor.factors.factor_messages import receive
from equifactor.factors.kind_numbers import CLAUSE, COUNT, NOISY_OR, PARITY, SPARSE
from equifactor.factors.kind_rows import KIND, NUM_TABLES, WORD_PTR, WORDS
from equifactor.factors.noisy_or.noisy_or_linear_kernels import is_plain_or, or_maxima, or_sums
from equifactor.factors.pair_kernels import LEAST, to_linear_pairs, to_logs
from equifactor.factors.parity.parity_kernels import parity_is_linear, parity_messages, parity_sums
from equifactor.factors.sparse.sparse_kernels import listed_sums
from equifactor.factors.structured_kernels import update_structured
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE
from equifactor.kernels.fastmath import MIN_EXP, NEG_INF, exp_, get, put
from equifactor.kernels.jit import fast_kernel


@fast_kernel
def update_all_structured(factors, slots, log_phi, phi, rows, msg, total, zeros, q, out, is_max):
    """Fill `out` with the normalised log messages of all structured factors; q is scratch.

    phi [T] are linear values, the largest of each factor 1; only sums read them. rows are the fields of `KindRows`. The
    other arguments are those of `update_structured`.
    """
    kind, num_factors = rows[KIND], len(factors) - 1
    begin = rows[NUM_TABLES]
    while begin < num_factors:
        end = begin
        while end < num_factors and kind[end] == kind[begin]:
            end += 1
        done = False
        if kind[begin] == PARITY or kind[begin] == CLAUSE:
            done = _update_chains(
                kind[begin], begin, end, factors, slots, log_phi, rows, msg, total, zeros, q, out, is_max
            )  # fmt: skip
        elif kind[begin] == NOISY_OR or kind[begin] == COUNT or kind[begin] == SPARSE:
            _update_linear(
                begin, end, factors, slots, log_phi, phi, rows, msg, total, zeros, q, out, is_max
            )  # fmt: skip
            done = True
        if not done:
            for p in range(begin, end):
                update_structured(factors, slots, log_phi, rows, p, msg, total, zeros, q, out, is_max)
        begin = end


@fast_kernel
def _update_chains(
    kind, begin, end, factors, slots, log_phi, rows, msg, total, zeros, q, out, is_max
):  # fmt: skip
    """Update parities or clauses `begin` to `end`; return False if one is too wide for linear numbers."""
    word_ptr, words = rows[WORD_PTR], rows[WORDS]
    first, last = factors[begin, SLOT], factors[end, SLOT]
    m, k = slots[first, MSG], last - first
    for s in range(first, last):
        x, state = slots[s, MSG], slots[s, STATE]
        for n in range(2):
            own = 1 if get(msg, x + n) == NEG_INF else 0
            v = get(total, state + n) - (0.0 if own else get(msg, x + n))
            put(q, x + n, v if get(zeros, state + n) == own else NEG_INF)
    if not is_max:
        for p in range(begin, end):
            start = factors[p, ENTRY]
            if kind == PARITY:
                if not parity_is_linear(log_phi[start], log_phi[start + 1]):
                    return False
            elif log_phi[start] >= WIDEST_VALUE:
                return False
        if not to_linear_pairs(m, k, q):
            return False
    else:
        for x in range(m, m + 2 * k, 2):
            top = max(get(q, x), get(q, x + 1))
            shift = top if top > NEG_INF else 0.0
            put(q, x, get(q, x) - shift)
            put(q, x + 1, get(q, x + 1) - shift)
    for p in range(begin, end):
        x, arity = slots[factors[p, SLOT], MSG], factors[p + 1, SLOT] - factors[p, SLOT]
        start = factors[p, ENTRY]
        if kind == PARITY:
            even, odd = log_phi[start], log_phi[start + 1]
            if is_max:
                parity_messages(x, arity, even, odd, q, out, True)
            else:
                parity_sums(x, arity, even, odd, q, out)
        elif is_max:
            clause_messages(x, arity, log_phi[start], words, word_ptr[p], q, out, True)
        else:
            clause_sums(x, arity, log_phi[start], words, word_ptr[p], q, out)
    if is_max:
        for x in range(m, m + 2 * k, 2):
            top = max(get(out, x), get(out, x + 1))
            shift = top if top > NEG_INF else 0.0
            put(out, x, get(out, x) - shift)
            put(out, x + 1, get(out, x + 1) - shift)
    else:
        to_logs(m, m + 2 * k, out)
    return True


@fast_kernel
def _update_linear(begin, end, factors, slots, log_phi, phi, rows, msg, total, zeros, q, out, is_max):
    """Fill `out` with the normalised log messages of factors `begin` to `end`: noisy-ors, counts or sparse tables.

    Args:
        begin: the first factor.
        end: the factor after the last.
        factors: as in `Layout`.
        slots: as in `Layout`.
        log_phi: [T] the log values of all factors.
        phi: [T] linear values, the largest of each factor 1; not read in the max semiring.
        rows: the fields of `KindRows`.
        msg: [S] messages to the variables.
        total: [X] sums of the finite messages.
        zeros: [X] numbers of the messages that are -inf.
        q: [S] scratch.
        out: [S] the output.
        is_max: the semiring.
    """
    kind, word_ptr, words = rows[KIND][begin], rows[WORD_PTR], rows[WORDS]
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
    left = np.zeros(end - begin, np.bool_)  # the factors left to the update in logs
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
            if left[p - begin]:  # The messages of this factor were not written and may be NaN.
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
    """Return the place behind the edge states of a factor."""
    s = factors[p + 1, SLOT] - 1
    return slots[s, MSG] + slots[s, CARD]


@fast_kernel
def _to_linear(m, stop, q):
    """Replace q[m:stop], at most 0 each, by exponentials.

    Too small ones become zero. Where this matters, a message falls below `LEAST`, and the factor is updated in logs.
    """
    for x in range(m, stop):
        v = get(q, x)
        e = exp_(max(v, MIN_EXP))
        put(q, x, e if v > MIN_EXP else 0.0)
