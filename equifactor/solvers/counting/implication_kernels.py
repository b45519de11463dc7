"""Kernels of the clauses of a search for sums: unit propagation and learned clauses."""

from __future__ import annotations

from equifactor.kernels.jit import kernel
from equifactor.solvers.counting.search_arrays import (
    CLAUSES,
    CONFLICTS,
    LEARNT,
    LEVEL,
    QUEUE,
    TRAIL,
    UNITS,
    WORK,
    SearchArrays,
)

DECAY = 1.02  # The growth of the weight of a conflict from one conflict to the next. Chosen by hand.


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
