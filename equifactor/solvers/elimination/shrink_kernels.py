# mypy: ignore-errors
"""Elimination of the variables that cost little, for MAP: what is left is a smaller graph with the same best score.

Factors lie in pools with room for those that elimination makes: scope of factor a in `scope[start[a]:start[a]+arity]`,
ascending; its table, in C order, from `table[first[a]]`. Factors around a variable are linked lists, `head [v]` into
`node_factor` and `node_next`; dead factors are dropped when a list is walked.
"""

import numpy as np

from equifactor.numerics.jit import fast_kernel, kernel

DEAD = -1  # arity of a factor that is no more


@kernel
def neighbourhood(i, cap, head, node_factor, node_next, start, arity, scope, card, seen, union, around):
    """The live factors of variable i into `around`, the other variables of their scopes into `union`, ascending.

    Returns how many of each, and the entries of the joint table; above `cap` it stops and the rest is unfinished.
    seen [v] is scratch, all false before and after.
    """
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
        for k in range(1, width):  # insertion: there are few
            j = union[k]
            n = k
            while n > 0 and union[n - 1] > j:
                union[n] = union[n - 1]
                n -= 1
            union[n] = j
    return count, width, entries


@fast_kernel
def add_table(axes, width, card, scope, first, last, table, entry, out, at, step, digit):
    """Add a factor's table to out[at:], a table over axes[:width] (C order) that hold its scope[first:last].

    step, digit [most axes] are scratch.
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
def sort_scopes(card, scope_ptr, scope_vars, table_ptr, log_phi):
    """Scopes in ascending order, and the tables to match."""
    scope = scope_vars.copy()
    table = np.zeros(len(log_phi))
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
def eliminate_cheap(
    most, widest, card, num_factors, start, arity, first, scope, table, head, node_factor, node_next, ends, done,
    done_ptr, done_scope, choice_ptr, choice, union, around,
):  # fmt: skip
    """Eliminate variables, the cheapest first, while their joint table has at most `most` entries.

    Nor may it leave a factor of more than `widest` variables. ends = [first free place in scope, in table, in the
    nodes]. Each eliminated variable leaves in `done`, `done_scope` and `choice` what it depends on and its best state
    for each state of those. Returns the number of variables eliminated and of factors, dead ones included.
    """
    num_vars = len(card)
    gone = np.zeros(num_vars, np.bool_)
    seen = np.zeros(num_vars, np.bool_)
    fresh = np.ones(num_vars, np.bool_)  # its neighbourhood has changed since it was last looked at
    step, digit = np.empty(len(union) + 1, np.int64), np.empty(len(union) + 1, np.int64)
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
                near, width, entries = neighbourhood(
                    i, cap, head, node_factor, node_next, start, arity, scope, card, seen, union, around
                )
                if entries > cap or width > widest:
                    continue
                again = True
                size, d = int(entries), card[i]
                joint[:size] = 0.0
                union[width] = i  # last axis: its states are neighbours in memory
                for n in range(near):
                    a = around[n]
                    add_table(
                        union, width + 1, card, scope, start[a], start[a] + arity[a], table, first[a], joint, 0, step,
                        digit,
                    )  # fmt: skip
                    arity[a] = DEAD
                rows = size // d
                a = num_factors
                num_factors += 1
                start[a], arity[a], first[a] = ends[0], width, ends[1]
                ends[0] += width
                ends[1] += rows
                for row in range(rows):
                    pick = 0
                    for x in range(1, d):
                        if joint[row * d + x] > joint[row * d + pick]:
                            pick = x
                    table[first[a] + row] = joint[row * d + pick]
                    choice[choice_ptr[count] + row] = pick
                choice_ptr[count + 1] = choice_ptr[count] + rows
                for k in range(width):
                    j = union[k]
                    scope[start[a] + k] = j
                    done_scope[done_ptr[count] + k] = j
                    node_factor[ends[2]], node_next[ends[2]] = a, head[j]
                    head[j] = ends[2]
                    ends[2] += 1
                    fresh[j] = True
                done_ptr[count + 1] = done_ptr[count] + width
                done[count] = i
                gone[i] = True
                count += 1
        cap *= 2.0
    return count, num_factors


@kernel
def absorb(card, num_factors, start, arity, first, scope, table, head, node_factor, node_next, union):
    """Add every factor to one whose scope holds its own; a unary factor to another of its variable only."""
    step, digit = np.empty(len(union) + 1, np.int64), np.empty(len(union) + 1, np.int64)
    for a in range(num_factors):
        if arity[a] < 1:
            continue
        node = head[scope[start[a]]]
        while node >= 0:
            b = node_factor[node]
            node = node_next[node]
            larger = arity[b] > arity[a] or (arity[b] == arity[a] and b < a)
            if not larger or (arity[a] == 1 and arity[b] > 1):
                continue
            s, end = start[b], start[b] + arity[b]
            inside = 0
            for r in range(start[a], start[a] + arity[a]):  # both ascend
                while s < end and scope[s] < scope[r]:
                    s += 1
                inside += s < end and scope[s] == scope[r]
            if inside == arity[a]:
                add_table(
                    scope[start[b] : end], arity[b], card, scope, start[a], start[a] + arity[a], table, first[a], table,
                    first[b], step, digit,
                )  # fmt: skip
                arity[a] = DEAD
                break


@kernel
def link(scope_ptr, scope_vars, head, node_factor, node_next):
    """Lists of the factors around each variable; how many nodes they take."""
    count = 0
    for a in range(len(scope_ptr) - 1):
        for e in range(scope_ptr[a], scope_ptr[a + 1]):
            i = scope_vars[e]
            node_factor[count], node_next[count] = a, head[i]
            head[i] = count
            count += 1
    return count


@kernel
def trace_back(count, done, done_ptr, done_scope, choice_ptr, choice, card, states):
    """Fill in the states [v] of the eliminated variables, the last one first."""
    for n in range(count - 1, -1, -1):
        row = 0
        for r in range(done_ptr[n], done_ptr[n + 1]):
            j = done_scope[r]
            row = row * card[j] + states[j]
        states[done[n]] = choice[choice_ptr[n] + row]
