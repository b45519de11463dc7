# mypy: ignore-errors
"""Elimination of cheap variables for MAP, which leaves a smaller graph with the same best score.

The arguments `pool` and `trace` are the records of `shrink.py`, passed as plain tuples; see `elimination_kernels.py`.
Dead factors are dropped from the list of a variable when it is walked.
"""

import numpy as np

from equifactor.kernels.jit import fast_kernel, kernel
from equifactor.solvers.elimination.shrink import FactorPool, Trace

DEAD = -1  # the arity of a removed factor
SCOPE, TABLE, NODE, FACTOR = range(4)  # the columns of `ends`


@kernel
def eliminate_cheap(most, widest, pool, trace):
    """Eliminate variables, the cheapest first, while their joint table has at most `most` entries.

    Also, an elimination must not leave a factor of more than `widest` variables. The trace records which variables were
    eliminated, and how they depend on others. Returns the number of eliminated variables.
    """
    pool, trace = FactorPool(*pool), Trace(*trace)
    num_vars = len(pool.card)
    gone, seen = np.zeros(num_vars, np.bool_), np.zeros(num_vars, np.bool_)
    fresh = np.ones(num_vars, np.bool_)  # whether the neighbourhood has changed since the variable was last looked at
    union, around = np.empty(num_vars + 1, np.int64), np.empty(len(pool.start), np.int64)
    step, digit = np.empty(num_vars + 2, np.int64), np.empty(num_vars + 2, np.int64)
    joint = np.empty(most)
    count = 0
    cap = 4.0
    while cap <= most:
        fresh[:] = True
        again = True
        while again:
            again = False
            for i in range(num_vars):
                if gone[i] or not fresh[i]:
                    continue
                fresh[i] = False
                near, width, entries = _neighbourhood(i, cap, pool, seen, union, around)
                if entries > cap or width > widest:
                    continue
                again = True
                union[width] = i  # its axis is the last one, so that its states are neighbours in memory
                _join_tables(around[:near], union[: width + 1], pool, joint[: int(entries)], step, digit)
                _maximise_out(i, count, union[:width], joint[: int(entries)], pool, trace)
                for k in range(width):
                    fresh[union[k]] = True
                gone[i] = True
                count += 1
        cap *= 2.0
    return count


@kernel
def _neighbourhood(i, cap, pool, seen, union, around):
    """Collect the live factors of variable i in `around`, the other variables of their scopes in `union`, ascending.

    Returns how many of each there are, and the entries of the joint table; above `cap` it stops early with incomplete
    lists. The array seen [v] is scratch, all false before and after.
    """
    card, start, arity, scope = pool.card, pool.start, pool.arity, pool.scope
    head, node_factor, node_next = pool.head, pool.node_factor, pool.node_next
    count = width = 0
    entries = float(card[i])
    before = -1
    node = head[i]
    while node >= 0 and entries <= cap:
        a = node_factor[node]
        if arity[a] == DEAD:
            if before < 0:
                head[i] = node_next[node]
            else:
                node_next[before] = node_next[node]
        else:
            before = node
            around[count] = a
            count += 1
            for s in range(start[a], start[a] + arity[a]):
                j = scope[s]
                if j != i and not seen[j]:
                    seen[j] = True
                    union[width] = j
                    width += 1
                    entries *= card[j]
        node = node_next[node]
    for k in range(width):
        seen[union[k]] = False
    if entries <= cap:
        for k in range(1, width):  # insertion is fast, because there are few
            j = union[k]
            n = k
            while n > 0 and union[n - 1] > j:
                union[n] = union[n - 1]
                n -= 1
            union[n] = j
    return count, width, entries


@kernel
def _join_tables(factors, axes, pool, joint, step, digit):
    """Add the tables of factors, which are dead afterwards, into `joint`, a table over `axes`."""
    card, start, arity, scope, table = pool.card, pool.start, pool.arity, pool.scope, pool.table
    joint[:] = 0.0
    for a in factors:
        last = start[a] + arity[a]
        add_table(axes, len(axes), card, scope, start[a], last, table, pool.first[a], joint, 0, step, digit)
        arity[a] = DEAD


@kernel
def _maximise_out(i, count, others, joint, pool, trace):
    """Maximise over variable i, the last axis of `joint`: make a factor over `others`, and record the best states."""
    scope, table, ends = pool.scope, pool.table, pool.ends
    head, node_factor, node_next = pool.head, pool.node_factor, pool.node_next
    choice, choice_start = trace.choice, trace.choice_start
    a, d = ends[FACTOR], pool.card[i]
    first, start, rows = ends[TABLE], ends[SCOPE], len(joint) // d
    pool.start[a], pool.arity[a], pool.first[a] = start, len(others), first
    for row in range(rows):
        pick = 0
        for x in range(1, d):
            if joint[row * d + x] > joint[row * d + pick]:
                pick = x
        table[first + row] = joint[row * d + pick]
        choice[choice_start[count] + row] = pick
    for k in range(len(others)):
        j = others[k]
        scope[start + k] = j
        trace.scope[trace.scope_ptr[count] + k] = j
        node = ends[NODE] + k
        node_factor[node], node_next[node] = a, head[j]
        head[j] = node
    trace.eliminated[count] = i
    trace.scope_ptr[count + 1] = trace.scope_ptr[count] + len(others)
    choice_start[count + 1] = choice_start[count] + rows
    ends[FACTOR] += 1
    ends[TABLE] += rows
    ends[SCOPE] += len(others)
    ends[NODE] += len(others)


@kernel
def merge_nested(pool):
    """Add every factor to one whose scope holds its own; add a unary factor only to another of its variable.

    Cost O(E), and for factors of arity above two as many steps as their variable with the fewest such factors has
    factors: a pair is compared with wider factors only, and with other pairs by marks.
    """
    pool = FactorPool(*pool)
    card, start, arity, scope = pool.card, pool.start, pool.arity, pool.scope
    head, node_factor, node_next = pool.head, pool.node_factor, pool.node_next
    step, digit = np.empty(len(card) + 2, np.int64), np.empty(len(card) + 2, np.int64)
    met_by, met = np.full(len(card), -1, np.int64), np.empty(len(card), np.int64)
    wide = np.zeros(len(card), np.int64)  # the number of factors of arity above two around each variable
    for a in range(pool.ends[FACTOR]):
        if arity[a] > 2:
            for s in range(start[a], start[a] + arity[a]):
                wide[scope[s]] += 1
    for i in range(len(card)):
        node = head[i]
        while node >= 0:
            b = node_factor[node]
            node = node_next[node]
            if arity[b] == 2 and scope[start[b]] == i:
                j = scope[start[b] + 1]
                if met_by[j] == i:
                    _merge(met[j], b, pool, step, digit)
                met_by[j], met[j] = i, b
    for a in range(pool.ends[FACTOR]):
        if arity[a] < 1:
            continue
        i = scope[start[a]]
        for s in range(start[a] + 1, start[a] + arity[a]):
            if wide[scope[s]] < wide[i]:
                i = scope[s]
        node = head[i] if arity[a] == 1 or wide[i] > 0 else -1
        while node >= 0:
            b = node_factor[node]
            node = node_next[node]
            larger = arity[b] > arity[a] or (arity[b] == arity[a] and b < a)
            if not larger or (arity[a] == 1 and arity[b] > 1):
                continue
            if _is_inside(scope[start[a] : start[a] + arity[a]], scope[start[b] : start[b] + arity[b]]):
                _merge(a, b, pool, step, digit)
                break


@kernel
def _merge(a, b, pool, step, digit):
    """Add the table of factor a, which is dead afterwards, to that of factor b, whose scope holds its scope."""
    card, start, arity, first, scope, table = pool.card, pool.start, pool.arity, pool.first, pool.scope, pool.table
    other, last = scope[start[b] : start[b] + arity[b]], start[a] + arity[a]
    add_table(other, len(other), card, scope, start[a], last, table, first[a], table, first[b], step, digit)
    arity[a] = DEAD


@kernel
def _is_inside(scope, other):
    """Return whether all variables of a scope are in another one; both are ascending."""
    s = inside = 0
    for r in range(len(scope)):
        while s < len(other) and other[s] < scope[r]:
            s += 1
        inside += s < len(other) and other[s] == scope[r]
    return inside == len(scope)


@fast_kernel
def add_table(axes, width, card, scope, first, last, table, entry, out, at, step, digit):
    """Add a factor's table to out[at:], a table over axes[:width] (C order) that hold its scope[first:last].

    The arrays step and digit [most axes] are scratch.
    """
    for k in range(width):
        step[k] = 0
        digit[k] = 0
    stride = 1
    for s in range(last - 1, first - 1, -1):
        for k in range(width):
            if axes[k] == scope[s]:
                step[k] = stride
        stride *= card[scope[s]]
    size = 1
    for k in range(width):
        size *= card[axes[k]]
    for t in range(at, at + size):
        out[t] += table[entry]
        for k in range(width - 1, -1, -1):
            digit[k] += 1
            entry += step[k]
            if digit[k] < card[axes[k]]:
                break
            entry -= step[k] * digit[k]
            digit[k] = 0


@kernel
def sort_scopes(card, scope_ptr, scope_vars, table_ptr, log_phi, room):
    """Return scopes in ascending order, and the tables with their axes in that order, with room for more entries."""
    scope = scope_vars.copy()
    table = np.empty(len(log_phi) + room)  # Pages that are never written take no memory.
    table[: len(log_phi)] = 0.0
    most = 0
    for a in range(len(scope_ptr) - 1):
        most = max(most, scope_ptr[a + 1] - scope_ptr[a])
    step, digit = np.empty(most, np.int64), np.empty(most, np.int64)
    for a in range(len(scope_ptr) - 1):
        first, last = scope_ptr[a], scope_ptr[a + 1]
        for k in range(first + 1, last):
            j = scope[k]
            n = k
            while n > first and scope[n - 1] > j:
                scope[n] = scope[n - 1]
                n -= 1
            scope[n] = j
        add_table(
            scope[first:last], last - first, card, scope_vars, first, last, log_phi, table_ptr[a], table, table_ptr[a],
            step, digit,
        )  # fmt: skip
    return scope, table


@kernel
def link(scope_ptr, scope_vars, head, node_factor, node_next):
    """Make the lists of the factors around each variable; return the number of nodes."""
    count = 0
    for a in range(len(scope_ptr) - 1):
        for e in range(scope_ptr[a], scope_ptr[a + 1]):
            i = scope_vars[e]
            node_factor[count], node_next[count] = a, head[i]
            head[i] = count
            count += 1
    return count
