"""The arrays of a search for sums, and what the places in its registers mean.

Symbols: literal 2v is "variable v is true", 2v + 1 its negation. A component is a set of free variables that are
connected by clauses which are not yet satisfied. Level n of the search decides one variable of one component.
All state lies in arrays, so that a search can be left at any decision and taken up again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Places of whole numbers in `SearchArrays.reg`.
LEVEL, TRAIL, QUEUE, COMPS, TOP, ENTRIES, ARENA, SIDE, CLAUSES, UNITS, STAMP, STATE, WORK, FULL = range(14)
NODES, FIXED, RECORD, DECISIONS, CONFLICTS, HITS, LEARNT, SAT, NUM_REG = range(14, 23)
# What the search does next.
NEXT, PROPAGATE, BRANCH_DONE, BRANCH_ZERO, COMP_DONE = range(5)
# Why the search came back.
FINISHED, IMPOSSIBLE, PAUSED, NEEDS_CLAUSES, NEEDS_ROOM, NEEDS_ARENA = range(6)


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
