# mypy: ignore-errors
"""Walks by single-variable moves: steepest ascent and tabu search."""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.core.extending import overload

from equifactor.factors.kind_moves import FACTOR, VARIABLE, look, other_literals
from equifactor.factors.move_kinds import KindMoves
from equifactor.factors.move_model import MoveArrays, MoveState
from equifactor.factors.moves import TO, move, states_of
from equifactor.kernels.fastmath import copy_into, get
from equifactor.kernels.heaps import settle
from equifactor.kernels.jit import FAST_OPTIONS, fast_kernel, inlined
from equifactor.kernels.randomness import random_below


class WalkArrays(NamedTuple):
    """The state of walks beside that of the assignment; every kernel fills the arrays it uses."""

    gain: np.ndarray  # [V] change of the score by the best other state of each variable
    choice: np.ndarray  # [V] that state
    heap: np.ndarray  # [V] the variables as a heap by their gains, for `ascend`
    place: np.ndarray  # [V] position of each variable in the heap
    until: np.ndarray  # [V] the move up to which each variable rests, for `tabu`
    best_x: np.ndarray  # [V] the best assignment that `tabu` has met

    @classmethod
    def zeros(cls, num_vars: int) -> "WalkArrays":
        """Return arrays for a graph of `num_vars` variables."""
        return cls(np.zeros(num_vars), *(np.zeros(num_vars, np.int64) for _ in range(5)))


@inlined
def best_change(arrays, state, walk, j):
    """Renew walk.gain[j] and walk.choice[j]: the best state of variable j other than its current one."""
    look(arrays, state, j)
    local = state.local
    first, card = states_of(arrays.var_ptr, j)
    here = state.x[j]
    top = -np.inf
    pick = here
    for y in range(card):
        value = get(local, first + y)
        if value > top and y != here:
            top = value
            pick = y
    walk.gain[j] = top - local[first + here]
    walk.choice[j] = pick


@inlined
def change_one(arrays, state, walk, j, heaped):
    """Renew the best change of variable j, and its position in the heap."""
    best_change(arrays, state, walk, j)
    if heaped:
        settle(walk.heap, walk.place, walk.gain, walk.place[j], len(state.x))


@inlined
def change_members(kinds, arrays, state, walk, i, heaped):
    """Renew the best changes of all variables that a move of variable i has reached through structured factors."""
    own, members, member_ptr = kinds.own, kinds.members, kinds.member_ptr
    clauses, literal_ptr, literals, var_of_state = kinds.clauses, kinds.literal_ptr, kinds.literals, kinds.var_of_state
    at, here, first, first_clause = state.at, state.x[i], arrays.var_ptr[i], kinds.first_clause
    for r in range(kinds.clause_ptr[i], kinds.clause_ptr[i + 1]):
        p = np.int64(clauses[r]) >> 1
        others, name = other_literals(clauses, first_clause, at, r, first, here)
        if others == 0:
            for m in range(literal_ptr[p], literal_ptr[p + 1]):
                j = np.int64(var_of_state[literals[m]])
                if j != i:
                    change_one(arrays, state, walk, j, heaped)
        elif others == 1:
            change_one(arrays, state, walk, np.int64(var_of_state[name]), heaped)
    for s in range(kinds.own_ptr[i], kinds.own_ptr[i + 1]):
        p = own[s, FACTOR]
        for m in range(member_ptr[p], member_ptr[p + 1]):
            j = members[m, VARIABLE]
            if j != i:
                change_one(arrays, state, walk, j, heaped)


def change_others(kinds, arrays, state, walk, i, heaped):
    """Call `change_members`, or do nothing in a graph of tables."""


@overload(change_others, jit_options=FAST_OPTIONS)
def _change_others(kinds, arrays, state, walk, i, heaped):
    def nothing(kinds, arrays, state, walk, i, heaped):
        pass

    def some(kinds, arrays, state, walk, i, heaped):
        change_members(KindMoves(*kinds), arrays, state, walk, i, heaped)

    return nothing if isinstance(kinds, types.NoneType) else some


@fast_kernel
def ascend(arrays, state, walk, moves, least):
    """Make the best single-variable improvement until none gains more than `least`, at most `moves` of them.

    Returns the gain of the score, and the number of moves.
    """
    arrays, state, walk = MoveArrays(*arrays), MoveState(*state), WalkArrays(*walk)
    arc_ptr, arcs = arrays.arc_ptr, arrays.arcs
    gain, heap, place = walk.gain, walk.heap, walk.place
    num_vars = len(state.x)
    for i in range(num_vars):
        gain[i] = -np.inf
        heap[i] = i
        place[i] = i
    for i in range(num_vars):  # one key changes at a time, because `settle` needs all others in order
        best_change(arrays, state, walk, i)
        settle(heap, place, gain, place[i], num_vars)
    risen = 0.0
    done = 0
    while done < moves and num_vars > 0 and gain[heap[0]] > least:
        i = heap[0]
        risen += gain[i]
        move(arrays, state, i, walk.choice[i])
        best_change(arrays, state, walk, i)
        settle(heap, place, gain, place[i], num_vars)
        for r in range(arc_ptr[i], arc_ptr[i + 1]):
            j = arcs[r, TO]
            best_change(arrays, state, walk, j)
            settle(heap, place, gain, place[j], num_vars)
        change_others(arrays.kinds, arrays, state, walk, i, True)
        done += 1
    return risen, done


@fast_kernel
def tabu(arrays, state, walk, rng, moves, score, shortest, longest, least):
    """Make `moves` best moves, good or bad; a moved variable rests for `shortest` to `longest` moves.

    A resting variable may move only to beat the best score so far, which is `score` at the start. An assignment goes
    to walk.best_x when it beats the best score by more than `least`. Returns the last score and the best one.
    """
    arrays, state, walk = MoveArrays(*arrays), MoveState(*state), WalkArrays(*walk)
    arc_ptr, arcs = arrays.arc_ptr, arrays.arcs
    x, gain, until = state.x, walk.gain, walk.until
    for i in range(len(x)):
        best_change(arrays, state, walk, i)
        until[i] = 0
    best = score
    unsaved = False
    for now in range(1, moves + 1):
        top = -1e308
        i = -1
        for j in range(len(x)):
            g = gain[j]
            if g > top and (until[j] < now or score + g > best + least):
                top = g
                i = j
        if unsaved and (i < 0 or top <= 0.0):
            copy_into(walk.best_x, x)
            unsaved = False
        if i < 0:
            continue  # every variable rests
        move(arrays, state, i, walk.choice[i])
        score += top
        until[i] = now + shortest + random_below(rng, longest - shortest + 1)
        best_change(arrays, state, walk, i)
        for r in range(arc_ptr[i], arc_ptr[i + 1]):
            best_change(arrays, state, walk, arcs[r, TO])
        change_others(arrays.kinds, arrays, state, walk, i, False)
        if score > best + least:
            best = score
            unsaved = True
    if unsaved:
        copy_into(walk.best_x, x)
    return score, best
