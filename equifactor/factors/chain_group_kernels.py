# mypy: ignore-errors
"""Messages of all parities or clauses of a batch at once: long loops over edge states, which the compiler vectorises.

The update of one factor at a time spends more time on the call than on a parity of six bits.
"""

from equifactor.factors.chain_kernels import (
    NEG_INF,
    WIDEST_VALUE,
    clause_messages,
    clause_sums,
    parity_messages,
    parity_sums,
    to_linear_pairs,
    to_logs,
)
from equifactor.factors.clause import Clause
from equifactor.factors.linear_group_kernels import COUNT, NOISY_OR, SPARSE, update_linear_group
from equifactor.factors.parity import Parity
from equifactor.factors.structured_kernels import update_structured
from equifactor.graph.layout import ENTRY, MSG, SLOT, STATE
from equifactor.kernels.fastmath import MIN_EXP, get, put
from equifactor.kernels.jit import fast_kernel

PARITY, CLAUSE = Parity.number, Clause.number


@fast_kernel
def update_all_structured(factors, slots, log_phi, phi, rows, msg, total, zeros, q, out, is_max):
    """Fill `out` with the normalised log messages of all factors that are no tables; q is scratch.

    phi [T] are linear values, the largest of each factor 1, which only sums read; rows are the fields of `KindRows`,
    and the other arguments are those of `update_structured`.
    """
    kind, num_factors = rows[0], len(factors) - 1
    begin = rows[5]
    while begin < num_factors:
        end = begin
        while end < num_factors and kind[end] == kind[begin]:
            end += 1
        done = False
        if kind[begin] == PARITY or kind[begin] == CLAUSE:
            done = _update_chains(
                kind[begin], begin, end, factors, slots, log_phi, rows[1], rows[2], msg, total, zeros, q, out, is_max
            )  # fmt: skip
        elif kind[begin] == NOISY_OR or kind[begin] == COUNT or kind[begin] == SPARSE:
            update_linear_group(
                begin, end, factors, slots, log_phi, phi, rows, msg, total, zeros, q, out, is_max
            )  # fmt: skip
            done = True
        if not done:
            for p in range(begin, end):
                update_structured(factors, slots, log_phi, rows, p, msg, total, zeros, q, out, is_max)
        begin = end


@fast_kernel
def _update_chains(
    kind, begin, end, factors, slots, log_phi, word_ptr, words, msg, total, zeros, q, out, is_max
):  # fmt: skip
    """Parities or clauses `begin` to `end`; False where some message or value is too wide for linear numbers."""
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
                low, high = min(log_phi[start], log_phi[start + 1]), max(log_phi[start], log_phi[start + 1])
                if high == NEG_INF or (low > NEG_INF and low - high <= MIN_EXP):
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
