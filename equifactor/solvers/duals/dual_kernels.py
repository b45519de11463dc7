# mypy: ignore-errors
"""Dual ascent for MAP: messages that lower the bound of `map_bounds`, factor by factor or variable by variable.

The bound is sum_i max_x total_i(x) + sum_a max_{x_a} (log f_a - sum_i m_{a->i}), total_i = sum_a m_{a->i}. Instead of a
message the kernels keep the value it gives back to its factor, `back [S]` = -m_{a->i}(x). `back` is -inf at every state
that is ruled out permanently. All values are then only ever added, and -inf stays -inf without a test. A state is ruled
out when no table entry of positive value supports it, which is a proof; a variable without states proves that Z = 0.

Once all messages were renewed, both sweeps leave every factor's maximum at 0, so the bound is sum_i max_x total_i(x).
"""

from typing import NamedTuple

import numpy as np

from equifactor.factors.chain_pass_kernels import STATES, begin_pass, chain_marginal, chain_step
from equifactor.factors.factor_messages import max_pair, max_products, step
from equifactor.factors.kind_rows import KIND
from equifactor.factors.structured_kernels import structured_messages
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE
from equifactor.kernels.fastmath import NEG_INF, get, put
from equifactor.kernels.jit import fast_kernel, inlined


class DualArrays(NamedTuple):
    """The arrays that both sweeps read and change; the index arrays are those of the `Layout`."""

    factors: np.ndarray
    slots: np.ndarray
    log_phi: np.ndarray  # [T]
    back: np.ndarray  # [S] the value that each message gives back to its factor
    total: np.ndarray  # [X] the sum of the messages into each state
    out: np.ndarray  # [S] scratch for the messages of a factor
    at: np.ndarray  # [k] scratch for the state of each slot, k the largest arity


class SweepOrder(NamedTuple):
    """One direction of a pass over the variables."""

    variables: np.ndarray  # [V] in the order of the pass
    slot_ptr: np.ndarray  # [V+1] the slots around variable i are slots_of_var[slot_ptr[i]:slot_ptr[i+1]]
    slots_of_var: np.ndarray
    factor_of_slot: np.ndarray  # [E]
    renew: np.ndarray  # [E] False for slots whose max-marginal cannot have changed since it became the message
    weight: np.ndarray  # [E] the share of the sum that the factor of each slot keeps


@fast_kernel
def sweep_factors(order, arrays, kinds, q, before):
    """Make one sweep of MPLP: each factor shares its max-marginals equally among its variables.

    With q_i = total_i - m_{a->i} and M_i(x) the largest log f_a + sum_j q_j at x_i = x, the new total_i is M_i / |a|:
    the block minimum of the dual over the messages of one factor. Cost O(T) for tables of bounded arity. `kinds` are
    the fields of `KindRows`, or None where all factors are tables.
    """
    factors, slots, log_phi, back, total, out, at = DualArrays(*arrays)
    for p in order:
        first, last = factors[p, SLOT], factors[p + 1, SLOT]
        arity = last - first
        if arity < 2:
            continue
        for s in range(first, last):
            m, state = slots[s, MSG], slots[s, STATE]
            for x in range(slots[s, CARD]):
                put(q, m + x, get(total, state + x) + get(back, m + x))
        is_table = True
        if kinds is not None:
            is_table = kinds[KIND][p] == 0
            if not is_table:
                structured_messages(factors, slots, log_phi, kinds, p, q, out)
        if not is_table:
            pass
        elif arity == 2:
            m1, m2 = slots[first, MSG], slots[first + 1, MSG]
            max_pair(log_phi, factors[p, ENTRY], m1, slots[first, CARD], m2, slots[first + 1, CARD], q, out)
        else:
            max_products(slots, first, last, log_phi, factors[p, ENTRY], factors[p + 1, ENTRY], q, out, at, before)
        share = 1.0 / arity
        for s in range(first, last):
            m, state = slots[s, MSG], slots[s, STATE]
            for x in range(slots[s, CARD]):
                best = (get(out, m + x) + get(q, m + x)) * share
                put(total, state + x, best)
                put(back, m + x, NEG_INF if best == NEG_INF else get(q, m + x) - best)


@fast_kernel
def sweep_variables(direction, arrays, kinds, chains, var_ptr, unary):
    """Make one pass of SRMP in the given order of variables: collect all max-marginals, give back a share of their sum.

    At variable i: mu_a(x) = max over x_a at x_i = x of log f_a - sum of the other messages, T = unary + sum_a mu_a, and
    the factor keeps weight_a (T - max T): m_{a->i} = mu_a - weight_a (T - max T). Weights of sum at most 1 keep the
    bound from rising. `kinds` are the fields of `KindRows` and `chains` those of `PassChains`; both are None where all
    factors are tables.

    Returns the bound, -inf when a variable has no state left. Cost O(T (k - 1)) for arity k.
    """
    order, slot_ptr, slots_of_var, factor_of_slot, renew, weight = SweepOrder(*direction)
    factors, slots, log_phi, back, total, out, at = DualArrays(*arrays)
    bound = 0.0
    if kinds is not None:
        begin_pass(order, slot_ptr, slots_of_var, factor_of_slot, factors, slots, log_phi, kinds, chains, back)
    for i in order:
        state = var_ptr[i]
        d = var_ptr[i + 1] - state
        for x in range(state, state + d):
            put(total, x, get(unary, x))
        for r in range(slot_ptr[i], slot_ptr[i + 1]):
            s = slots_of_var[r]
            m = slots[s, MSG]
            if renew[s]:
                p = factor_of_slot[s]
                is_table = True
                if kinds is not None:
                    is_table = kinds[KIND][p] == 0
                    if chains[STATES][p] > 0:
                        chain_marginal(factors, slots, kinds, chains, p, s, out)
                    elif not is_table:
                        structured_messages(factors, slots, log_phi, kinds, p, back, out)
                if is_table:
                    max_marginal(factors, slots, log_phi, p, s, back, out, at)
            else:
                for x in range(m, m + d):
                    v = get(back, x)
                    put(out, x, NEG_INF if v == NEG_INF else -v)
            for x in range(d):
                put(total, state + x, get(total, state + x) + get(out, m + x))
        top = NEG_INF
        for x in range(state, state + d):
            top = max(top, get(total, x))
        bound += top
        if top == NEG_INF:  # no assignment is possible, so the chains need not be correct for the rest of the pass
            for r in range(slot_ptr[i], slot_ptr[i + 1]):
                m = slots[slots_of_var[r], MSG]
                for x in range(m, m + d):
                    put(back, x, NEG_INF)
            continue
        given = 0.0
        for r in range(slot_ptr[i], slot_ptr[i + 1]):
            s = slots_of_var[r]
            m = slots[s, MSG]
            w = weight[s]
            given += w
            for x in range(d):
                t = get(total, state + x)
                put(back, m + x, NEG_INF if t == NEG_INF else w * (t - top) - get(out, m + x))
            if kinds is not None:
                p = factor_of_slot[s]
                if chains[STATES][p] > 0:
                    chain_step(factors, slots, kinds, chains, p, s, back)
        for x in range(state, state + d):
            t = get(total, x)
            put(total, x, t if t == NEG_INF else t - given * (t - top))
    return bound


@inlined
def max_marginal(factors, slots, log_phi, p, s, back, out, at):
    """Fill `out` at slot s of factor p with the max over its other slots of log_phi + back, its own message."""
    first, last = factors[p, SLOT], factors[p + 1, SLOT]
    entry = factors[p, ENTRY]
    arity = last - first
    m, d = slots[s, MSG], slots[s, CARD]
    if arity == 2 and factors[p + 1, ENTRY] - entry == 4:  # loops over two states cost more than their bodies
        other = slots[first if s > first else first + 1, MSG]
        v0, v1 = get(back, other), get(back, other + 1)
        near, far = get(log_phi, entry + (1 if s == first else 2)), get(log_phi, entry + (2 if s == first else 1))
        put(out, m, max(get(log_phi, entry) + v0, near + v1))
        put(out, m + 1, max(far + v0, get(log_phi, entry + 3) + v1))
    elif arity == 2 and s == first:
        m2, d2 = slots[first + 1, MSG], slots[first + 1, CARD]
        for x in range(d):
            best = NEG_INF
            for y in range(d2):
                best = max(best, get(log_phi, entry + x * d2 + y) + get(back, m2 + y))
            put(out, m + x, best)
    elif arity == 2:
        m1, d1 = slots[first, MSG], slots[first, CARD]
        for y in range(d):
            put(out, m + y, NEG_INF)
        for x in range(d1):
            v = get(back, m1 + x)
            for y in range(d):
                put(out, m + y, max(get(out, m + y), get(log_phi, entry + x * d + y) + v))
    else:
        for x in range(m, m + d):
            put(out, x, NEG_INF)
        for j in range(arity):
            at[j] = slots[first + j, MSG]
        k = s - first
        for t in range(entry, factors[p + 1, ENTRY]):
            value = log_phi[t]
            for j in range(arity):
                value += back[at[j]] if j != k else 0.0
            out[at[k]] = max(out[at[k]], value)
            step(slots, first, arity, at)


@fast_kernel
def spread_exclusions(edges, back, total):
    """Write -inf into `back` at all factors of a variable where its state is ruled out."""
    for e in range(len(edges)):
        m, state = edges[e, MSG], edges[e, STATE]
        for x in range(edges[e, CARD]):
            if total[state + x] == NEG_INF:
                back[m + x] = NEG_INF


@fast_kernel
def sum_of_maxima(var_ptr, total):
    """Return sum_i max_x total_i(x)."""
    bound = 0.0
    for i in range(len(var_ptr) - 1):
        top = NEG_INF
        for x in range(var_ptr[i], var_ptr[i + 1]):
            top = max(top, total[x])
        bound += top
    return bound
