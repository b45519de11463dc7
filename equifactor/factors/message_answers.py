# mypy: ignore-errors
"""From messages to answers: beliefs, table reductions for ln Z and bounds, states of highest belief."""

import math

import numpy as np

from equifactor.factors.factor_messages import first_entry, log_add, receive, step, with_messages
from equifactor.factors.kind_rows import NUM_TABLES
from equifactor.factors.structured_kernels import structured_reduction
from equifactor.graph.layout import CARD, ENTRY, MSG, SLOT, STATE, Layout
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel


@fast_kernel
def variable_to_factor(edges, msg, total, zeros):
    """Return [S] sums of the other factors' messages, not normalised."""
    out = np.empty_like(msg)
    for e in range(len(edges)):
        receive(edges[e, MSG], edges[e, STATE], edges[e, CARD], msg, total, zeros, out)
    return out


@fast_kernel
def reduce_tables(layout, kinds, log_phi, values, is_max):
    """Return [F] log-sum-exp (or maximum) over each table of log_phi plus the edge-state values [S] of its slots.

    `kinds` are the fields of `KindRows`, or None if all factors are tables. A maximum is never too low.
    """
    layout = Layout(*layout)
    factors, slots = layout.factors, layout.slots
    num_factors = len(factors) - 1
    reduced = np.empty(num_factors)
    at = np.empty(max(1, layout.max_arity), np.int64)
    num_tables = num_factors
    if kinds is not None:
        num_tables = kinds[NUM_TABLES]
        out = np.empty_like(values)
        longest = 1
        for p in range(num_tables, num_factors):
            longest = max(longest, factors[p + 1, SLOT] - factors[p, SLOT])
        chosen = np.empty(longest, np.int64)
        for p in range(num_tables, num_factors):
            reduced[p] = structured_reduction(factors, slots, log_phi, kinds, p, values, out, chosen, is_max)
    for p in range(num_tables):
        first = factors[p, SLOT]
        arity = factors[p + 1, SLOT] - first
        first_entry(slots, first, arity, at)
        top, scaled = NEG_INF, 0.0
        for t in range(factors[p, ENTRY], factors[p + 1, ENTRY]):
            value = with_messages(log_phi[t], values, at, arity, -1)
            if is_max:
                top = max(top, value)
            else:
                top, scaled = log_add(top, scaled, value)
            step(slots, first, arity, at)
        reduced[p] = top if is_max or top == NEG_INF else top + math.log(scaled)
    return reduced


@fast_kernel
def beliefs(var_ptr, log_b_v):
    """Return normalised probabilities [X], ln of the normaliser [V], and the first state of highest belief [V]."""
    num_vars = len(var_ptr) - 1
    p = np.zeros_like(log_b_v)
    log_z = np.full(num_vars, NEG_INF)
    best = np.zeros(num_vars, np.int64)
    for i in range(num_vars):
        top = NEG_INF
        for x in range(var_ptr[i], var_ptr[i + 1]):
            if log_b_v[x] > top:
                top = log_b_v[x]
                best[i] = x - var_ptr[i]
        if top == NEG_INF:
            continue
        scale = 0.0
        for x in range(var_ptr[i], var_ptr[i + 1]):
            p[x] = math.exp(log_b_v[x] - top)
            scale += p[x]
        for x in range(var_ptr[i], var_ptr[i + 1]):
            p[x] /= scale
        log_z[i] = top + math.log(scale)
    return p, log_z, best
