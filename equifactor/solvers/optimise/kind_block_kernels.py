# mypy: ignore-errors
"""Block moves and regions through factors that are no tables; see `tree_blocks` and `tree_regions`.

A forest may hold two variables of such a factor, parent and child, and no third one: then the factor, the others held
fixed, is a table over both. Its members are not listed as arcs, so that memory is linear in the edges; `work.held` says
of each factor whether a variable of the block is in it.

Each function is nothing, or what it says of arcs alone, where `kinds` is None: a graph of tables.
"""

from numba import types
from numba.core.extending import overload

from equifactor.graph.move_kinds import KindMoves
from equifactor.numerics.jit import FAST_OPTIONS, inlined
from equifactor.numerics.kind_moves import FACTOR, FIRST_WEIGHT, SECOND_WEIGHT, TURN, VARIABLE, held, value_of

FREE, FULL, SEEN = -1, -2, -3  # A factor holds none or two variables of the block, or was met before; else it holds one.
_QUEUED = 1 << 32  # This mark in `links` says that a variable waits although no arc leads to it.
_WIDEST = 64  # Forests and regions do not grow through factors of more variables: all would be neighbours.


@inlined
def join_slots(kinds, x, at, c, q, s, card_c, card_q, theta):
    """Fill theta [card_c, card_q] with the values of the factor of own slot s of variable c, which it shares with q."""
    own, labels = kinds.own, kinds.labels
    p = own[s, FACTOR]
    t = kinds.own_ptr[q]
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
            theta[a * card_q + b] = value_of(kinds, p, first, second)


def slot_link(kinds, arrays, state, work, c):
    """Fill work.theta with the link of variable c to its parent where that is no arc; the parent, or -1."""


@overload(slot_link, jit_options=FAST_OPTIONS)
def _slot_link(kinds, arrays, state, work, c):
    def nothing(kinds, arrays, state, work, c):
        return -1

    def some(kinds, arrays, state, work, c):
        if work.parent[c] > -2:
            return -1
        q, var_ptr = work.partner[c], arrays.var_ptr
        s = -2 - work.parent[c]
        card_c, card_q = var_ptr[c + 1] - var_ptr[c], var_ptr[q + 1] - var_ptr[q]
        join_slots(KindMoves(*kinds), state.x, state.at, c, q, s, card_c, card_q, work.theta)
        return q

    return nothing if isinstance(kinds, types.NoneType) else some


def links_to_block(kinds, work, i):
    """How many variables of the block share a factor with variable i, one for each factor."""


@overload(links_to_block, jit_options=FAST_OPTIONS)
def _links_to_block(kinds, work, i):
    def nothing(kinds, work, i):
        return work.links[i]

    def some(kinds, work, i):
        kinds = KindMoves(*kinds)
        count = work.links[i] & (_QUEUED - 1)
        for s in range(kinds.own_ptr[i], kinds.own_ptr[i + 1]):
            holder = work.held[kinds.own[s, FACTOR]]
            if holder != FREE:
                count += 2 if holder == FULL else 1
        return count

    return nothing if isinstance(kinds, types.NoneType) else some


def join_block(kinds, work, i, waiting):
    """Enter variable i into the factors around it, and let their other members wait; how many wait then."""


@overload(join_block, jit_options=FAST_OPTIONS)
def _join_block(kinds, work, i, waiting):
    def nothing(kinds, work, i, waiting):
        return waiting

    def some(kinds, work, i, waiting):
        kinds = KindMoves(*kinds)
        own, members, member_ptr = kinds.own, kinds.members, kinds.member_ptr
        held_by, links, inside, frontier = work.held, work.links, work.inside, work.queue
        for s in range(kinds.own_ptr[i], kinds.own_ptr[i + 1]):
            p = own[s, FACTOR]
            if held_by[p] != FREE:
                work.parent[i] = -2 - s
                work.partner[i] = held_by[p]
                held_by[p] = FULL
                continue
            held_by[p] = i
            if member_ptr[p + 1] - member_ptr[p] <= _WIDEST:
                for m in range(member_ptr[p], member_ptr[p + 1]):
                    j = members[m, VARIABLE]
                    if inside[j] == 1 and links[j] == 0:
                        links[j] = _QUEUED
                        frontier[waiting] = j
                        waiting += 1
        return waiting

    return nothing if isinstance(kinds, types.NoneType) else some


def free_factors(kinds, work, variables, count):
    """Forget who is in the factors around the first `count` variables."""


@overload(free_factors, jit_options=FAST_OPTIONS)
def _free_factors(kinds, work, variables, count):
    def nothing(kinds, work, variables, count):
        pass

    def some(kinds, work, variables, count):
        kinds = KindMoves(*kinds)
        for n in range(count):
            i = variables[n]
            for s in range(kinds.own_ptr[i], kinds.own_ptr[i + 1]):
                work.held[kinds.own[s, FACTOR]] = FREE

    return nothing if isinstance(kinds, types.NoneType) else some


def spread_region(kinds, work, i, count, size):
    """Take the members of the factors around variable i into the region until it is full; how many it has then."""


@overload(spread_region, jit_options=FAST_OPTIONS)
def _spread_region(kinds, work, i, count, size):
    def nothing(kinds, work, i, count, size):
        return count

    def some(kinds, work, i, count, size):
        kinds = KindMoves(*kinds)
        member_ptr, region, inside = kinds.member_ptr, work.region, work.inside
        for s in range(kinds.own_ptr[i], kinds.own_ptr[i + 1]):
            p = kinds.own[s, FACTOR]
            if member_ptr[p + 1] - member_ptr[p] <= _WIDEST:
                for m in range(member_ptr[p], member_ptr[p + 1]):
                    j = kinds.members[m, VARIABLE]
                    if inside[j] == 0 and count < size:
                        inside[j] = 1
                        region[count] = j
                        count += 1
        return count

    return nothing if isinstance(kinds, types.NoneType) else some


def reach_members(kinds, work, i, count):
    """Queue the changed members of the factors around variable i in `judge`; how many are in the queue then."""


@overload(reach_members, jit_options=FAST_OPTIONS)
def _reach_members(kinds, work, i, count):
    def nothing(kinds, work, i, count):
        return count

    def some(kinds, work, i, count):
        kinds = KindMoves(*kinds)
        member_ptr, inside, changed, queue = kinds.member_ptr, work.inside, work.links, work.queue
        for s in range(kinds.own_ptr[i], kinds.own_ptr[i + 1]):
            p = kinds.own[s, FACTOR]
            if work.held[p] != SEEN:
                work.held[p] = SEEN
                for m in range(member_ptr[p], member_ptr[p + 1]):
                    j = kinds.members[m, VARIABLE]
                    if inside[j] == 1 and changed[j] == 1:
                        changed[j] = 0
                        queue[count] = j
                        count += 1
        return count

    return nothing if isinstance(kinds, types.NoneType) else some
