# mypy: ignore-errors
"""Sums over the missing values of a row, by enumerating every completion.

Missing variables that share a factor form a component. Components are independent given the rest of the row, so each
component is enumerated by itself, with the factors that touch it. At least half of the completions differ from the one
before in a single variable, so that only the factors of that variable move to another entry.
"""

import math

from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined
from equifactor.learning.fitting.completion_records import CompletionScopes, CompletionWork


@fast_kernel
def measure_rows(states, scopes, work, largest, total):
    """Write the number of completions of the largest component of each row [N], and the steps of all components [N]."""
    scopes, work = CompletionScopes(*scopes), CompletionWork(*work)
    work.seen_variable[:] = -1
    work.seen_factor[:] = -1
    for n in range(len(states)):
        count = _find_components(n, states, scopes, work)
        largest[n], total[n] = 1.0, 1.0
        for c in range(count):
            size = 1.0
            for k in range(work.variable_ptr[c], work.variable_ptr[c + 1]):
                size *= scopes.card[work.variables[k]]
            largest[n] = max(largest[n], size)
            total[n] += size * (work.factor_ptr[c + 1] - work.factor_ptr[c] + 2)


@fast_kernel
def complete_rows(states, weights, log_phi, scopes, work, counts, log_p):
    """Write the log score [N] of each row, summed over its completions, and add expected counts [T] if wanted."""
    scopes, work = CompletionScopes(*scopes), CompletionWork(*work)
    work.seen_variable[:] = -1
    work.seen_factor[:] = -1
    for n in range(len(states)):
        components = _find_components(n, states, scopes, work)
        log_p[n] = 0.0
        for a in range(len(scopes.table_ptr) - 1):
            work.entry[a] = scopes.table_ptr[a]
            for e in range(scopes.scope_ptr[a], scopes.scope_ptr[a + 1]):
                if states[n, scopes.scope_vars[e]] >= 0:
                    work.entry[a] += scopes.stride[e] * states[n, scopes.scope_vars[e]]
            if work.seen_factor[a] != n:
                log_p[n] += log_phi[work.entry[a]]
                if len(counts) > 0:
                    counts[work.entry[a]] += weights[n]
        for c in range(components):
            log_p[n] += _enumerate(c, weights[n], log_phi, scopes, work, counts)


@inlined
def _find_components(n, states, scopes, work):
    """Find the components of the missing variables of row n and the factors that touch them; return their number."""
    count, last, last_factor = 0, 0, 0
    work.variable_ptr[0] = 0
    work.factor_ptr[0] = 0
    for i in range(len(scopes.card)):
        if states[n, i] >= 0 or work.seen_variable[i] == n:
            continue
        work.seen_variable[i] = n
        work.variables[last] = i
        next_one = last
        last += 1
        while next_one < last:
            variable = work.variables[next_one]
            next_one += 1
            for k in range(scopes.edge_ptr[variable], scopes.edge_ptr[variable + 1]):
                a = scopes.factor_of_edge[scopes.edges[k]]
                if work.seen_factor[a] == n:
                    continue
                work.seen_factor[a] = n
                work.factors[last_factor] = a
                last_factor += 1
                for e in range(scopes.scope_ptr[a], scopes.scope_ptr[a + 1]):
                    other = scopes.scope_vars[e]
                    if states[n, other] < 0 and work.seen_variable[other] != n:
                        work.seen_variable[other] = n
                        work.variables[last] = other
                        last += 1
        count += 1
        work.variable_ptr[count] = last
        work.factor_ptr[count] = last_factor
    return count


@fast_kernel
def _enumerate(c, weight, log_phi, scopes, work, counts):
    """Return ln of the sum over all completions of component c, and add the expected counts of its factors."""
    first, last = work.factor_ptr[c], work.factor_ptr[c + 1]
    size = 1
    for k in range(work.variable_ptr[c], work.variable_ptr[c + 1]):
        size *= scopes.card[work.variables[k]]
        work.digit[k] = 0
    top = NEG_INF
    for x in range(size):
        score = 0.0
        for k in range(first, last):
            score += log_phi[work.entry[work.factors[k]]]
        work.scores[x] = score
        top = max(top, score)
        _advance(c, scopes, work)
    if top == NEG_INF:
        return NEG_INF
    total = 0.0
    for x in range(size):
        work.scores[x] = math.exp(work.scores[x] - top)
        total += work.scores[x]
    if len(counts) > 0:
        for x in range(size):
            share = weight * work.scores[x] / total
            if share > 0.0:
                for k in range(first, last):
                    counts[work.entry[work.factors[k]]] += share
            _advance(c, scopes, work)
    return top + math.log(total)


@inlined
def _advance(c, scopes, work):
    """Go to the next completion; the first completion follows the last one."""
    for k in range(work.variable_ptr[c], work.variable_ptr[c + 1]):
        variable = work.variables[k]
        work.digit[k] += 1
        step = 1
        if work.digit[k] == scopes.card[variable]:
            step = 1 - work.digit[k]
            work.digit[k] = 0
        for j in range(scopes.edge_ptr[variable], scopes.edge_ptr[variable + 1]):
            e = scopes.edges[j]
            work.entry[scopes.factor_of_edge[e]] += step * scopes.stride[e]
        if step == 1:
            return
