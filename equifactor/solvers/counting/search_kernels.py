"""Kernels of the search for sums: components, a cache of their sums, and decisions."""

from __future__ import annotations

import numpy as np

from equifactor.kernels.jit import kernel
from equifactor.solvers.counting.implication_kernels import learn, propagate
from equifactor.solvers.counting.search_arrays import (
    ARENA,
    ARENA_AT,
    BRANCH,
    BRANCH_DONE,
    BRANCH_ZERO,
    CLAUSES,
    COMP,
    COMP_DONE,
    COMPS,
    DECISIONS,
    ENTRIES,
    ENTRIES_AT,
    FINISHED,
    FIRST,
    FULL,
    HITS,
    IMPOSSIBLE,
    LEVEL,
    NEEDS_ARENA,
    NEEDS_CLAUSES,
    NEEDS_ROOM,
    NEXT,
    NODES,
    PAUSED,
    PROPAGATE,
    QUEUE,
    RECORD,
    SIDE,
    SIDE0,
    SIDE1,
    STAMP,
    STATE,
    TOP,
    TOP_AT,
    TRAIL,
    TRAIL_AT,
    UNITS,
    WORK,
    SearchArrays,
)


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
            if reg[WORK] > end_of_work or reg[FULL]:
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
