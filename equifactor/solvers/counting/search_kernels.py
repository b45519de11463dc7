"""Kernels of the search for sums: propagation, learned clauses, components, a cache of their sums.

Symbols: literal 2v is "variable v is true", 2v + 1 its negation. A component is a set of free variables that are
connected by clauses which are not yet satisfied. Level n of the search decides one variable of one component.
All state lies in arrays, so that a search can be left at any decision and taken up again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from equifactor.kernels.jit import kernel

# Places of whole numbers in `SearchArrays.reg`.
LEVEL, TRAIL, QUEUE, COMPS, TOP, ENTRIES, ARENA, SIDE, CLAUSES, UNITS, STAMP, STATE, WORK, FULL = range(14)
NODES, FIXED, RECORD, DECISIONS, CONFLICTS, HITS, LEARNT, SAT, NUM_REG = range(14, 23)
# What the search does next.
NEXT, PROPAGATE, BRANCH_DONE, BRANCH_ZERO, COMP_DONE = range(5)
# Why the search came back.
FINISHED, IMPOSSIBLE, PAUSED, NEEDS_CLAUSES, NEEDS_ROOM, NEEDS_ARENA = range(6)
DECAY = 1.02  # The growth of the weight of a conflict from one conflict to the next. Chosen by hand.


class SearchArrays(NamedTuple):
    """All arrays of a search. n variables, m clauses, N cached sums."""

    reg: Any  # [NUM_REG] int64
    weight: Any  # [2n] log weights of literals
    free: Any  # [n] log of the sum of both weights
    prio: Any  # [n] fixed part of the score by which a variable is chosen
    sign: Any  # [n] int8: 1 to try "false" first
    act: Any  # [n + 1] part of the score that conflicts raise; the last entry is the present raise
    lits: Any  # literals of all clauses
    ptr: Any  # [m + 1] clause c has the literals ptr[c]:ptr[c + 1]; the first two are watched
    quality: Any  # [m] number of levels in a learned clause
    head: Any  # [2n] first watch of each literal, -1 without a watch
    link: Any  # [2m] next watch of the same literal; watches of clause c are 2c and 2c + 1
    occ_ptr: Any  # [n + 1]
    occ: Any  # given clauses of each variable
    value: Any  # [2n] int8: 1 true, -1 false, 0 free
    level: Any  # [n]
    reason: Any  # [n] clause that implied a variable, -1 for a decision
    trail: Any  # [n] literals in the order in which they became true
    seen: Any  # [n] int8, zero outside of `learn`
    buffer: Any  # [2n + 2] room for a learned clause
    units: Any  # [n] learned literals
    pool: Any  # variables of components, one component after the other
    comp_ptr: Any  # [2n + 4] first variable of each component in `pool`; the end is the start of the next
    key_a: Any  # [2n + 4] uint64
    key_b: Any  # [2n + 4] uint64
    var_stamp: Any  # [n]
    clause_stamp: Any  # [m given]
    mark_a: Any  # [2n] uint64, random
    mark_b: Any  # [2n] uint64, random
    lv: Any  # [n + 2, 9] int64, see `COMP` and the following
    lv_sum: Any  # [n + 2, 2] log sum of the first branch, and log product of the branch in progress
    cache_head: Any  # [power of two]
    cache_link: Any  # [N]
    cache_a: Any  # [N] uint64
    cache_b: Any  # [N] uint64
    cache_sum: Any  # [N]
    cache_node: Any  # [N]
    side: Any  # literals and children of branches in progress
    arena: Any  # nodes of the circuit
    node_ptr: Any  # [nodes] where each node begins in `arena`


COMP, BRANCH, FIRST, TRAIL_AT, ENTRIES_AT, ARENA_AT, SIDE0, SIDE1, TOP_AT = range(9)  # Columns of `lv`.


@kernel
def propagate(a):  # type: ignore[no-untyped-def]
    """Follow all implications of the queue; return the violated clause or -1."""
    s = SearchArrays(*a)
    reg, value, lits, ptr, head, link = s.reg, s.value, s.lits, s.ptr, s.head, s.link
    level, work = reg[LEVEL], 0
    while reg[QUEUE] < reg[TRAIL]:
        false = s.trail[reg[QUEUE]] ^ 1
        reg[QUEUE] += 1
        watch, last = head[false], -1
        while watch >= 0:
            work += 1
            follow = link[watch]
            c = watch >> 1
            begin = ptr[c]
            other = lits[begin]
            if other == false:
                other = lits[begin + 1]
                lits[begin], lits[begin + 1] = other, false
            if value[other] == 1:
                last, watch = watch, follow
                continue
            moved = False
            for p in range(begin + 2, ptr[c + 1]):
                x = lits[p]
                if value[x] >= 0:
                    lits[begin + 1], lits[p] = x, false
                    link[watch] = head[x]
                    head[x] = watch
                    if last < 0:
                        head[false] = follow
                    else:
                        link[last] = follow
                    moved = True
                    break
            if not moved:
                if value[other] == -1:
                    reg[WORK] += work
                    return c
                value[other] = 1
                value[other ^ 1] = -1
                s.level[other >> 1] = level
                s.reason[other >> 1] = c
                s.trail[reg[TRAIL]] = other
                reg[TRAIL] += 1
                last = watch
            watch = follow
    reg[WORK] += work
    return -1


@kernel
def learn(a, conflict):  # type: ignore[no-untyped-def]
    """Add the clause of the first unique implication point; return it, -2 for a unit, -1 if there is nothing to learn.

    The literal that the clause implies comes first. A unit is put among `units`.
    """
    s = SearchArrays(*a)
    reg, seen, level, lits, ptr, out = s.reg, s.seen, s.level, s.lits, s.ptr, s.buffer
    now = reg[LEVEL]
    size, here, at, c, skip = 1, 0, reg[TRAIL], conflict, -1
    while True:
        for p in range(ptr[c], ptr[c + 1]):
            x = lits[p]
            v = x >> 1
            if x == skip or seen[v] or level[v] == 0:
                continue
            seen[v] = 1
            s.act[v] += s.act[len(s.act) - 1]
            if level[v] == now:
                here += 1
            else:
                out[size] = x
                size += 1
        if here == 0:
            break
        at -= 1
        while not (seen[s.trail[at] >> 1] and level[s.trail[at] >> 1] == now):
            at -= 1
        skip = s.trail[at]
        c = s.reason[skip >> 1]
        here -= 1
        if here == 0:
            break
        seen[skip >> 1] = 0
    if skip < 0:  # the conflict does not depend on this level
        for p in range(1, size):
            seen[out[p] >> 1] = 0
        return -1
    out[0] = skip ^ 1
    kept = 1  # literals that follow from the others are left out
    for p in range(1, size):
        x = out[p]
        c = s.reason[x >> 1]
        implied = c >= 0
        if implied:
            for q in range(ptr[c], ptr[c + 1]):
                v = lits[q] >> 1
                if not seen[v] and level[v] > 0:
                    implied = False
                    break
        if not implied:
            out[size + kept] = x
            kept += 1
    for p in range(size):
        seen[out[p] >> 1] = 0
    for p in range(1, kept):
        out[p] = out[size + p]
    s.act[len(s.act) - 1] *= DECAY
    if s.act[len(s.act) - 1] > 1e100:
        for v in range(len(s.act)):
            s.act[v] *= 1e-100
    reg[CONFLICTS] += 1
    if kept == 1:
        s.units[reg[UNITS]] = out[0]
        reg[UNITS] += 1
        return -2
    best = 1
    for p in range(2, kept):
        if level[out[p] >> 1] > level[out[best] >> 1]:
            best = p
    out[1], out[best] = out[best], out[1]
    c = reg[CLAUSES]
    begin = ptr[c]
    levels = 0
    for p in range(kept):
        lits[begin + p] = out[p]
        levels += level[out[p] >> 1] != level[out[max(p - 1, 0)] >> 1]
    ptr[c + 1] = begin + kept
    s.quality[c] = levels
    for k in range(2):
        s.link[2 * c + k] = s.head[out[k]]
        s.head[out[k]] = 2 * c + k
    reg[CLAUSES] += 1
    reg[LEARNT] += 1
    return c


@kernel
def split(a, first, last):  # type: ignore[no-untyped-def]
    """Split the variables pool[first:last] into components, and multiply the sums of those that are known.

    Return the log of the product. Components to be searched are put on the stack. With `RECORD` the literals and known
    components go to `side`.
    """
    s = SearchArrays(*a)
    reg, value, pool, lits, ptr = s.reg, s.value, s.pool, s.lits, s.ptr
    reg[STAMP] += 1
    stamp, record, product, work = reg[STAMP], reg[RECORD], 0.0, 0
    n = len(s.level)
    for place in range(first, last):
        v = pool[place]
        if value[2 * v] != 0:
            x = 2 * v + (value[2 * v] < 0)
            product += s.weight[x]
            if record:
                s.side[reg[SIDE]] = x
                reg[SIDE] += 1
            continue
        if s.var_stamp[v] == stamp:
            continue
        s.var_stamp[v] = stamp
        begin, end = reg[TOP], reg[TOP] + 1
        pool[begin] = v
        at = begin
        sum_a, sum_b = np.uint64(0), np.uint64(0)
        while at < end:
            u = pool[at]
            at += 1
            for p in range(s.occ_ptr[u], s.occ_ptr[u + 1]):
                c = s.occ[p]
                if s.clause_stamp[c] == stamp:
                    continue
                s.clause_stamp[c] = stamp
                own_a, own_b = np.uint64(0), np.uint64(0)
                satisfied = False
                before = end
                for q in range(ptr[c], ptr[c + 1]):
                    x = lits[q]
                    if value[x] == 1:
                        satisfied = True
                        break
                    if value[x] == 0:
                        own_a += s.mark_a[x]
                        own_b += s.mark_b[x]
                        if s.var_stamp[x >> 1] != stamp:
                            s.var_stamp[x >> 1] = stamp
                            pool[end] = x >> 1
                            end += 1
                work += 1
                if satisfied:
                    while end > before:  # the variables may come in through another clause
                        end -= 1
                        s.var_stamp[pool[end]] = 0
                    continue
                own_a = (own_a ^ (own_a >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
                own_b = (own_b ^ (own_b >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
                sum_a += own_a ^ (own_a >> np.uint64(32))
                sum_b += own_b ^ (own_b >> np.uint64(30))
        if end == begin + 1:
            product += s.free[v]
            if record:
                s.side[reg[SIDE]] = 2 * n + v
                reg[SIDE] += 1
            continue
        entry = s.cache_head[np.int64(sum_a & np.uint64(len(s.cache_head) - 1))]
        while entry >= 0 and (s.cache_a[entry] != sum_a or s.cache_b[entry] != sum_b):
            entry = s.cache_link[entry]
        if entry >= 0:
            reg[HITS] += 1
            product += s.cache_sum[entry]
            if record:
                s.side[reg[SIDE]] = -1 - s.cache_node[entry]
                reg[SIDE] += 1
            continue
        k = reg[COMPS]
        s.comp_ptr[k] = begin
        s.key_a[k] = sum_a
        s.key_b[k] = sum_b
        reg[COMPS] += 1
        s.comp_ptr[k + 1] = end
        reg[TOP] = end
    reg[WORK] += work
    return product


@kernel
def search(a, budget):  # type: ignore[no-untyped-def]
    """Search until the sum is known, an array is full, or `budget` units of work are done; return the reason."""
    s = SearchArrays(*a)
    reg, value, lv, lv_sum, trail = s.reg, s.value, s.lv, s.lv_sum, s.trail
    n = len(s.level)
    end_of_work = reg[WORK] + budget
    learned = -1
    while True:
        at = reg[LEVEL]
        state = reg[STATE]
        if state == NEXT:
            if reg[COMPS] == lv[at, FIRST]:
                if at == 0:
                    return FINISHED
                reg[STATE] = BRANCH_DONE
                continue
            if reg[WORK] > end_of_work:
                return PAUSED
            if reg[CLAUSES] + 3 > len(s.quality) or s.ptr[reg[CLAUSES]] + 2 * n + 4 > len(s.lits):
                return NEEDS_CLAUSES
            k = reg[COMPS] - 1
            first, last = s.comp_ptr[k], s.comp_ptr[k + 1]
            if last + 2 * (last - first) > len(s.pool) or reg[SIDE] + 4 * (last - first) > len(s.side):
                return NEEDS_ROOM
            best, top = s.pool[first], -np.inf
            for p in range(first, last):
                v = s.pool[p]
                score = s.prio[v] + s.act[v] / s.act[n]
                if score > top:
                    best, top = v, score
            reg[DECISIONS] += 1
            at += 1
            reg[LEVEL] = at
            lv[at, COMP], lv[at, BRANCH], lv[at, FIRST] = k, 0, reg[COMPS]
            lv[at, TRAIL_AT], lv[at, ENTRIES_AT], lv[at, ARENA_AT] = reg[TRAIL], reg[ENTRIES], reg[ARENA]
            lv[at, SIDE0], lv[at, SIDE1], lv[at, TOP_AT] = reg[SIDE], reg[SIDE], reg[TOP]
            lv_sum[at, 0], lv_sum[at, 1] = -np.inf, 0.0
            learned = -1
            decision = 2 * best + s.sign[best]
            value[decision], value[decision ^ 1] = 1, -1
            s.level[best], s.reason[best] = at, -1
            trail[reg[TRAIL]] = decision
            reg[TRAIL] += 1
            reg[STATE] = PROPAGATE
        elif state == PROPAGATE:
            for u in range(reg[UNITS]):
                x = s.units[u]
                if value[x] == 0:
                    value[x], value[x ^ 1] = 1, -1
                    s.level[x >> 1], s.reason[x >> 1] = 0, -1
                    trail[reg[TRAIL]] = x
                    reg[TRAIL] += 1
            conflict = propagate(a)
            if conflict < 0:
                k = lv[at, COMP]
                lv_sum[at, 1] = split(a, s.comp_ptr[k], s.comp_ptr[k + 1])
                reg[STATE] = NEXT
            else:
                learned = -1 if at == 0 else learn(a, conflict)
                reg[STATE] = BRANCH_ZERO
        elif state == BRANCH_ZERO or (state == BRANCH_DONE and lv[at, BRANCH] == 0):
            if at == 0:
                return IMPOSSIBLE
            if state == BRANCH_ZERO:
                reg[SIDE] = lv[at, SIDE1]
                while reg[ARENA] > lv[at, ARENA_AT]:
                    reg[NODES] -= 1
                    reg[ARENA] = s.node_ptr[reg[NODES]]
                while reg[ENTRIES] > lv[at, ENTRIES_AT]:  # sums of this branch may rely on a clause that ended it
                    reg[ENTRIES] -= 1
                    e = reg[ENTRIES]
                    s.cache_head[np.int64(s.cache_a[e] & np.uint64(len(s.cache_head) - 1))] = s.cache_link[e]
                lv_sum[at, 1] = -np.inf
                reg[COMPS], reg[TOP] = lv[at, FIRST], lv[at, TOP_AT]
            decision = trail[lv[at, TRAIL_AT]]
            while reg[TRAIL] > lv[at, TRAIL_AT]:
                reg[TRAIL] -= 1
                x = trail[reg[TRAIL]]
                value[x], value[x ^ 1] = 0, 0
            reg[QUEUE] = reg[TRAIL]
            if lv[at, BRANCH] == 1:
                reg[STATE] = COMP_DONE
                continue
            lv[at, BRANCH], lv[at, SIDE1] = 1, reg[SIDE]
            lv[at, ENTRIES_AT], lv[at, ARENA_AT] = reg[ENTRIES], reg[ARENA]
            lv_sum[at, 0], lv_sum[at, 1] = lv_sum[at, 1], 0.0
            implied = -1
            if learned >= 0:
                implied = s.lits[s.ptr[learned]]
            for turn in range(2):
                x = decision ^ 1 if turn == 0 else implied
                if x >= 0 and value[x] == 0:
                    value[x], value[x ^ 1] = 1, -1
                    s.level[x >> 1] = at
                    s.reason[x >> 1] = learned if x == implied else -1
                    trail[reg[TRAIL]] = x
                    reg[TRAIL] += 1
            learned = -1
            reg[STATE] = PROPAGATE
        elif state == BRANCH_DONE:
            reg[STATE] = COMP_DONE
        else:
            k, learned = lv[at, COMP], -1
            x, y = max(lv_sum[at, 0], lv_sum[at, 1]), min(lv_sum[at, 0], lv_sum[at, 1])
            total = x if np.isneginf(y) else x + np.log1p(np.exp(y - x))
            node = -1
            if reg[RECORD] and not np.isneginf(total):
                size = reg[SIDE] - lv[at, SIDE0]
                if reg[ARENA] + size + 2 > len(s.arena) or reg[NODES] + 2 > len(s.node_ptr):
                    return NEEDS_ARENA
                node, p = reg[NODES], reg[ARENA]
                s.arena[p] = lv[at, SIDE1] - lv[at, SIDE0] if lv_sum[at, 0] > -np.inf else -1
                s.arena[p + 1] = reg[SIDE] - lv[at, SIDE1] if lv_sum[at, 1] > -np.inf else -1
                for q in range(size):
                    s.arena[p + 2 + q] = s.side[lv[at, SIDE0] + q]
                s.node_ptr[node] = p
                reg[NODES] += 1
                reg[ARENA] = p + 2 + size
                s.node_ptr[node + 1] = reg[ARENA]
            while reg[TRAIL] > lv[at, TRAIL_AT]:
                reg[TRAIL] -= 1
                x = trail[reg[TRAIL]]
                value[x], value[x ^ 1] = 0, 0
            reg[QUEUE] = reg[TRAIL]
            reg[SIDE] = lv[at, SIDE0]
            reg[COMPS], reg[TOP] = k, s.comp_ptr[k]
            reg[LEVEL] = at - 1
            if np.isneginf(total):
                reg[STATE] = BRANCH_ZERO
                continue
            e = reg[ENTRIES]
            if e < len(s.cache_sum):
                h = np.int64(s.key_a[k] & np.uint64(len(s.cache_head) - 1))
                s.cache_a[e], s.cache_b[e], s.cache_sum[e] = s.key_a[k], s.key_b[k], total
                s.cache_node[e] = node
                s.cache_link[e] = s.cache_head[h]
                s.cache_head[h] = e
                reg[ENTRIES] = e + 1
            else:
                reg[FULL] = 1
            lv_sum[at - 1, 1] += total
            if reg[RECORD]:
                s.side[reg[SIDE]] = -1 - node
                reg[SIDE] += 1
            reg[STATE] = NEXT
