# mypy: ignore-errors
"""Block moves and regions through structured factors; see `tree_blocks` and `tree_regions`.

A forest may hold two variables of a structured factor, parent and child, but not a third one. With its other variables
fixed, the factor is then a table over the two. The variables of structured factors are not listed as arcs, so that
memory is linear in the edges. Instead `work.held` holds for each factor, clauses first, the variable of the block in
it.

In a graph of tables, where `kinds` is None, a function does nothing, or counts arcs alone.
"""

import numpy as np
from numba import types
from numba.core.extending import overload

from equifactor.factors.clause.clause_move_kernels import join_clause_pair
from equifactor.factors.kind_moves import FACTOR, FIRST_WEIGHT, SECOND_WEIGHT, TURN, VARIABLE, held, value_of
from equifactor.factors.move_kinds import KindMoves
from equifactor.kernels.jit import FAST_OPTIONS, inlined

# Values of `work.held`: a factor holds no variable of the block, holds two, or was met before by `reach_members`. Any
# other value is the one variable of the block that the factor holds.
FREE, FULL, SEEN = -1, -2, -3
_QUEUED = 1 << 32  # This mark in `links` says that a variable waits although no arc leads to it.
_WIDEST = (
    64  # Forests and regions do not grow through factors of more variables: all would be neighbours. Chosen by hand.
)


@inlined
def factors_around(kinds, i):
    """Return how many clauses and other factors are around variable i; `factor_around` numbers them."""
    return kinds.clause_ptr[i + 1] - kinds.clause_ptr[i], kinds.own_ptr[i + 1] - kinds.own_ptr[i]


@inlined
def factor_around(clauses, own, first_clause, first_own, num_clauses, total, n):
    """Return the number in `held` of the n-th factor around a variable, of whose factors `num_clauses` are clauses."""
    if n < num_clauses:
        return np.int64(clauses[first_clause + n]) >> 1
    return total + own[first_own + n - num_clauses, FACTOR]


@inlined
def width_of(literal_ptr, member_ptr, total, f):
    """Return how many variables factor f has; `total` clauses come first."""
    if f < total:
        return literal_ptr[f + 1] - literal_ptr[f]
    return member_ptr[f - total + 1] - member_ptr[f - total]


@inlined
def variable_of(literal_ptr, literals, var_of_state, member_ptr, members, total, f, m):
    """Return the m-th variable of factor f."""
    if f < total:
        return np.int64(var_of_state[literals[literal_ptr[f] + m]])
    return members[member_ptr[f - total] + m, VARIABLE]


@inlined
def join_slots(kinds, x, at, c, q, p, card_c, card_q, theta):
    """Fill theta [card_c, card_q] with the values of factor p over its variables c and q, the others held fixed."""
    own, labels, factors, values, keys = kinds.own, kinds.labels, kinds.factors, kinds.values, kinds.keys
    s, t = kinds.own_ptr[c], kinds.own_ptr[q]
    while own[s, FACTOR] != p:
        s += 1
    while own[t, FACTOR] != p:
        t += 1
    w = kinds.first_word + 2 * p
    here, there = held(labels, own[s, TURN], x[c]), held(labels, own[t, TURN], x[q])
    one = at[w] - here * own[s, FIRST_WEIGHT] - there * own[t, FIRST_WEIGHT]
    two = at[w + 1] - here * own[s, SECOND_WEIGHT] - there * own[t, SECOND_WEIGHT]
    for a in range(card_c):
        h = held(labels, own[s, TURN], a)
        one_a, two_a = one + h * own[s, FIRST_WEIGHT], two + h * own[s, SECOND_WEIGHT]
        for b in range(card_q):
            h = held(labels, own[t, TURN], b)
            first, second = one_a + h * own[t, FIRST_WEIGHT], two_a + h * own[t, SECOND_WEIGHT]
            theta[a * card_q + b] = value_of(factors, values, keys, p, first, second)


def slot_link(kinds, var_ptr, x, at, parent, partner, theta, c):
    """Fill theta with the link of variable c to its parent if that is not an arc; return the parent, or -1."""


@overload(slot_link, jit_options=FAST_OPTIONS)
def _slot_link(kinds, var_ptr, x, at, parent, partner, theta, c):
    def nothing(kinds, var_ptr, x, at, parent, partner, theta, c):
        return -1

    def some(kinds, var_ptr, x, at, parent, partner, theta, c):
        if parent[c] > -2:
            return -1
        kinds = KindMoves(*kinds)
        q, f, total = partner[c], -2 - parent[c], len(kinds.clause_values)
        if f < total:
            join_clause_pair(kinds, x, at, c, q, f, theta)
        else:
            card_c, card_q = var_ptr[c + 1] - var_ptr[c], var_ptr[q + 1] - var_ptr[q]
            join_slots(kinds, x, at, c, q, f - total, card_c, card_q, theta)
        return q

    return nothing if isinstance(kinds, types.NoneType) else some


def links_to_block(kinds, links, held_by, i):
    """Return how many variables of the block share a factor with variable i, one for each factor."""


@overload(links_to_block, jit_options=FAST_OPTIONS)
def _links_to_block(kinds, links, held_by, i):
    def nothing(kinds, links, held_by, i):
        return links[i]

    def some(kinds, links, held_by, i):
        kinds = KindMoves(*kinds)
        clauses, own, total = kinds.clauses, kinds.own, len(kinds.clause_values)
        count = links[i] & (_QUEUED - 1)
        num_clauses, num_others = factors_around(kinds, i)
        first_clause, first_own = kinds.clause_ptr[i], kinds.own_ptr[i]
        for n in range(num_clauses + num_others):
            holder = held_by[factor_around(clauses, own, first_clause, first_own, num_clauses, total, n)]
            if holder != FREE:
                count += 2 if holder == FULL else 1
        return count

    return nothing if isinstance(kinds, types.NoneType) else some


def join_block(kinds, work, i, waiting):
    """Enter variable i into the factors around it and let their other variables wait; return how many wait then."""


@overload(join_block, jit_options=FAST_OPTIONS)
def _join_block(kinds, work, i, waiting):
    def nothing(kinds, work, i, waiting):
        return waiting

    def some(kinds, work, i, waiting):
        kinds = KindMoves(*kinds)
        clauses, own, total = kinds.clauses, kinds.own, len(kinds.clause_values)
        literal_ptr, literals, var_of_state = kinds.literal_ptr, kinds.literals, kinds.var_of_state
        member_ptr, members = kinds.member_ptr, kinds.members
        held_by, links, inside, frontier = work.held, work.links, work.inside, work.queue
        parent, partner = work.parent, work.partner
        num_clauses, num_others = factors_around(kinds, i)
        first_clause, first_own = kinds.clause_ptr[i], kinds.own_ptr[i]
        for n in range(num_clauses + num_others):
            f = factor_around(clauses, own, first_clause, first_own, num_clauses, total, n)
            if held_by[f] != FREE:
                parent[i] = -2 - f
                partner[i] = held_by[f]
                held_by[f] = FULL
                continue
            held_by[f] = i
            width = width_of(literal_ptr, member_ptr, total, f)
            if width <= _WIDEST:
                for m in range(width):
                    j = variable_of(literal_ptr, literals, var_of_state, member_ptr, members, total, f, m)
                    if inside[j] == 1 and links[j] == 0:
                        links[j] = _QUEUED
                        frontier[waiting] = j
                        waiting += 1
        return waiting

    return nothing if isinstance(kinds, types.NoneType) else some


def free_factors(kinds, held_by, variables, count):
    """Mark the factors around the first `count` variables as free."""


@overload(free_factors, jit_options=FAST_OPTIONS)
def _free_factors(kinds, held_by, variables, count):
    def nothing(kinds, held_by, variables, count):
        pass

    def some(kinds, held_by, variables, count):
        kinds = KindMoves(*kinds)
        clauses, own, total = kinds.clauses, kinds.own, len(kinds.clause_values)
        clause_ptr, own_ptr = kinds.clause_ptr, kinds.own_ptr
        for n in range(count):
            i = variables[n]
            for r in range(clause_ptr[i], clause_ptr[i + 1]):
                held_by[np.int64(clauses[r]) >> 1] = FREE
            for s in range(own_ptr[i], own_ptr[i + 1]):
                held_by[total + own[s, FACTOR]] = FREE

    return nothing if isinstance(kinds, types.NoneType) else some


def spread_region(kinds, work, i, count, size):
    """Add the variables of the factors around variable i to the region until it is full; return its new size."""


@overload(spread_region, jit_options=FAST_OPTIONS)
def _spread_region(kinds, work, i, count, size):
    def nothing(kinds, work, i, count, size):
        return count

    def some(kinds, work, i, count, size):
        kinds = KindMoves(*kinds)
        clauses, own, total = kinds.clauses, kinds.own, len(kinds.clause_values)
        literal_ptr, literals, var_of_state = kinds.literal_ptr, kinds.literals, kinds.var_of_state
        member_ptr, members, region, inside = kinds.member_ptr, kinds.members, work.region, work.inside
        num_clauses, num_others = factors_around(kinds, i)
        first_clause, first_own = kinds.clause_ptr[i], kinds.own_ptr[i]
        for n in range(num_clauses + num_others):
            f = factor_around(clauses, own, first_clause, first_own, num_clauses, total, n)
            width = width_of(literal_ptr, member_ptr, total, f)
            if width <= _WIDEST:
                for m in range(width):
                    j = variable_of(literal_ptr, literals, var_of_state, member_ptr, members, total, f, m)
                    if inside[j] == 0 and count < size:
                        inside[j] = 1
                        region[count] = j
                        count += 1
        return count

    return nothing if isinstance(kinds, types.NoneType) else some


def reach_members(kinds, work, i, count):
    """Queue the changed variables of the factors around variable i, for `judge`; return the length of the queue."""


@overload(reach_members, jit_options=FAST_OPTIONS)
def _reach_members(kinds, work, i, count):
    def nothing(kinds, work, i, count):
        return count

    def some(kinds, work, i, count):
        kinds = KindMoves(*kinds)
        clauses, own, total = kinds.clauses, kinds.own, len(kinds.clause_values)
        literal_ptr, literals, var_of_state = kinds.literal_ptr, kinds.literals, kinds.var_of_state
        member_ptr, members, held_by = kinds.member_ptr, kinds.members, work.held
        inside, changed, queue = work.inside, work.links, work.queue
        num_clauses, num_others = factors_around(kinds, i)
        first_clause, first_own = kinds.clause_ptr[i], kinds.own_ptr[i]
        for n in range(num_clauses + num_others):
            f = factor_around(clauses, own, first_clause, first_own, num_clauses, total, n)
            if held_by[f] != SEEN:
                held_by[f] = SEEN
                for m in range(width_of(literal_ptr, member_ptr, total, f)):
                    j = variable_of(literal_ptr, literals, var_of_state, member_ptr, members, total, f, m)
                    if inside[j] == 1 and changed[j] == 1:
                        changed[j] = 0
                        queue[count] = j
                        count += 1
        return count

    return nothing if isinstance(kinds, types.NoneType) else some
