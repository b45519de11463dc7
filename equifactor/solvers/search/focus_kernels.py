# mypy: ignore-errors
"""Focused search: take a random zero factor and a random variable of it, and change it if the Metropolis rule accepts.

This is the Metropolis rule on the number of zeros, with its proposals confined to factors that are zero [Seitz05].
Proposals come from structured factors only; all zeros count.
"""

from typing import NamedTuple

import numpy as np

from equifactor.factors.kind_moves import (
    FACTOR,
    VARIABLE,
    look_around,
    move_clauses,
    move_slots,
    other_literals,
    value_of,
)
from equifactor.factors.move_kinds import KindMoves
from equifactor.factors.move_model import MoveArrays, MoveState
from equifactor.factors.moves import move_in_tables
from equifactor.kernels.fastmath import copy_into
from equifactor.kernels.jit import fast_kernel, inlined
from equifactor.kernels.randomness import random_below, random_unit


class FocusArrays(NamedTuple):
    """The state of the search beside that of the assignment."""

    zeros: np.ndarray  # [N] the factors that are zero come first
    place: np.ndarray  # [N] position of each factor in `zeros`, -1 for a factor above zero
    count: np.ndarray  # [1] number of factors that are zero
    trail: np.ndarray  # [trials, 2] the variables moved since the best assignment, and their states before
    best_x: np.ndarray  # [V] the best assignment
    noise: np.ndarray  # [7] the probability of accepting one more zero, by the arity of the chosen factor


@inlined
def note_factor(zeros, place, count, p, is_zero):
    """Add factor p to those that are zero, or remove it."""
    if is_zero and place[p] < 0:
        place[p] = count[0]
        zeros[count[0]] = p
        count[0] += 1
    elif not is_zero and place[p] >= 0:
        count[0] -= 1
        last = zeros[count[0]]
        zeros[place[p]] = last
        place[last] = place[p]
        place[p] = -1


@fast_kernel
def find_zeros(arrays, state, focus, penalty):
    """List the factors that are zero, at an assignment whose sums are up to date."""
    state, focus = MoveState(*state), FocusArrays(*focus)
    kinds = KindMoves(*MoveArrays(*arrays).kinds)
    zeros, place, count, at = focus.zeros, focus.place, focus.count, state.at
    clause_values, first_clause, first_word = kinds.clause_values, kinds.first_clause, kinds.first_word
    factors, values, keys, zero_below = kinds.factors, kinds.values, kinds.keys, kinds.zero_below
    count[0] = 0
    place[:] = -1
    for p in range(len(clause_values)):
        note_factor(zeros, place, count, p, at[first_clause + p] == 0 and clause_values[p] < -0.5 * penalty)
    for p in range(len(zero_below)):
        w = first_word + 2 * p
        is_zero = value_of(factors, values, keys, p, at[w], at[w + 1]) < zero_below[p]
        note_factor(zeros, place, count, len(clause_values) + p, is_zero)


@fast_kernel
def focused_walk(arrays, state, focus, rng, score, best, penalty):
    """Try as many changes as the trail has room for; return the last score, the best one, and the number of moves.

    The walk stops when every structured factor has a positive value. focus.best_x becomes the best assignment if its
    score exceeds `best`, the highest score so far.
    """
    arrays, state, focus = MoveArrays(*arrays), MoveState(*state), FocusArrays(*focus)
    kinds = KindMoves(*arrays.kinds)
    var_ptr, x, kept, local, at = arrays.var_ptr, state.x, state.kept, state.local, state.at
    clause_ptr, clauses, literal_ptr, literals = kinds.clause_ptr, kinds.clauses, kinds.literal_ptr, kinds.literals
    clause_values, first_clause, var_of_state = kinds.clause_values, kinds.first_clause, kinds.var_of_state
    own_ptr, own, members, member_ptr = kinds.own_ptr, kinds.own, kinds.members, kinds.member_ptr
    first_word, labels, zero_below = kinds.first_word, kinds.labels, kinds.zero_below
    factors, values, keys = kinds.factors, kinds.values, kinds.keys
    zeros, place, count, trail, noise = focus.zeros, focus.place, focus.count, focus.trail, focus.noise
    total = len(clause_values)
    steps = 0  # the number of moves since the best assignment
    moves = 0
    better = False
    for _ in range(len(trail)):
        if count[0] == 0:
            break
        f = zeros[random_below(rng, count[0])]
        if f < total:
            arity = literal_ptr[f + 1] - literal_ptr[f]
            i = np.int64(var_of_state[literals[literal_ptr[f] + random_below(rng, arity)]])
        else:
            arity = member_ptr[f - total + 1] - member_ptr[f - total]
            i = members[member_ptr[f - total] + random_below(rng, arity), VARIABLE]
        first, card = var_ptr[i], var_ptr[i + 1] - var_ptr[i]
        if card < 2:
            continue
        a = x[i]
        b = 1 - a if card == 2 else (a + 1 + random_below(rng, card - 1)) % card
        if own_ptr[i] == own_ptr[i + 1]:
            gain = kept[first + b] - kept[first + a]
        else:
            look_around(kinds, var_ptr, x, kept, local, at, i)
            gain = local[first + b] - local[first + a]
        more = -np.rint(gain / penalty)  # number of additional zeros
        if more > 0.0 and random_unit(rng) > noise[min(arity, len(noise) - 1)] ** more:
            continue
        begin, end = clause_ptr[i], clause_ptr[i + 1]
        move_clauses(clauses, begin, end, literal_ptr, literals, clause_values, first_clause, kept, at, first, a)
        move_slots(own, own_ptr[i], own_ptr[i + 1], labels, first_word, at, a, b)
        move_in_tables(arrays, state, i, b)
        for r in range(begin, end):
            p = np.int64(clauses[r]) >> 1
            # A clause that another literal holds was and is above zero, so its arrays need no update.
            if other_literals(clauses, first_clause, at, r, first, b)[0] == 0:
                note_factor(zeros, place, count, p, at[first_clause + p] == 0 and clause_values[p] < -0.5 * penalty)
        for s in range(own_ptr[i], own_ptr[i + 1]):
            p = own[s, FACTOR]
            w = first_word + 2 * p
            is_zero = value_of(factors, values, keys, p, at[w], at[w + 1]) < zero_below[p]
            note_factor(zeros, place, count, total + p, is_zero)
        score += gain
        moves += 1
        trail[steps, 0] = i
        trail[steps, 1] = a
        steps += 1
        if score > best + 0.25 * penalty:
            best = score
            better = True
            steps = 0
    if better:
        copy_into(focus.best_x, x)
        for n in range(steps - 1, -1, -1):
            focus.best_x[trail[n, 0]] = trail[n, 1]
    return score, best, moves
