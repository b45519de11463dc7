# mypy: ignore-errors
"""Beam search: the best assignments visited, and all their single-variable neighbours."""

from typing import NamedTuple

import numpy as np

from equifactor.factors.kind_moves import look
from equifactor.factors.move_model import MoveArrays, MoveState
from equifactor.factors.moves import move, rebuild_inline
from equifactor.kernels.fastmath import copy_into
from equifactor.kernels.jit import fast_kernel

PARENT, VARIABLE, STATE = 0, 1, 2  # columns of PoolArrays.origin
IMPOSSIBLE = -1e308  # stands for ln 0; below every score
_REFRESH = 256  # Moves after which the sums of an assignment are recomputed, to remove rounding. Chosen by hand.


class BeamArrays(NamedTuple):
    """The 2K assignments that the search has room for, and which K of them are the best."""

    score: np.ndarray  # [2K] scores without the constant
    code: np.ndarray  # [2K] hashes: the exclusive or of the keys of all states of an assignment
    depth: np.ndarray  # [2K] moves since the sums of an assignment were recomputed
    expanded: np.ndarray  # [2K] whether its neighbours were examined
    cache: np.ndarray  # [K] the places of the best assignments, best first
    size: np.ndarray  # [1] the number of the best assignments
    keys: np.ndarray  # [X] random keys, one per variable state


class PoolArrays(NamedTuple):
    """Scratch for the best assignments of one step, best first, before they are built."""

    origin: np.ndarray  # [K, 3] PARENT: its place; VARIABLE to change, -1 for the parent itself; STATE: its new one
    score: np.ndarray  # [K] their scores; all impossible ones are equal with `tie_zeros`
    code: np.ndarray  # [K] their hashes


@fast_kernel
def beam_steps(arrays, states, beam, pool, steps, possible, tie_zeros):
    """Make at most `steps` steps; return the number of steps, and whether the cache still changed in the last one.

    A step examines every neighbour of the cached assignments and keeps the best K of all visited; of equal scores, the
    earlier comes first. Neighbours of an assignment are examined once: those that were not kept then cannot be among
    the best later. With `tie_zeros` all scores below `possible` are equal. `arrays` is a `MoveArrays` and
    `states` a `MoveState` of 2K assignments.
    """
    arrays, states, beam, pool = MoveArrays(*arrays), MoveState(*states), BeamArrays(*beam), PoolArrays(*pool)
    var_ptr, x, local, at, kept = arrays.var_ptr, states.x, states.local, states.at, states.kept
    score, code, depth, expanded = beam.score, beam.code, beam.depth, beam.expanded
    cache, size, keys = beam.cache, beam.size, beam.keys
    origin, pool_score, pool_code = pool.origin, pool.score, pool.code
    width = len(cache)
    for step in range(steps):
        count = size[0]
        for n in range(count):
            k = cache[n]
            origin[n, PARENT] = k
            origin[n, VARIABLE] = -1
            pool_score[n] = IMPOSSIBLE if tie_zeros and score[k] < possible else score[k]
            pool_code[n] = code[k]
        changed = False
        for n in range(size[0]):
            k = cache[n]
            if expanded[k]:
                continue
            expanded[k] = True
            parent = MoveState(x[k], local[k], at[k], kept[k])
            for i in range(len(var_ptr) - 1):
                look(arrays, parent, i)
                first = var_ptr[i]
                here = first + x[k, i]
                rest = score[k] - local[k, here]
                for s in range(first, var_ptr[i + 1]):
                    value = rest + local[k, s]
                    if tie_zeros and value < possible:
                        value = IMPOSSIBLE
                    # Equal up to rounding is not better, since an assignment may be reached in several ways.
                    if s == here or (
                        count == width and value <= pool_score[count - 1] + 1e-12 * abs(pool_score[count - 1])
                    ):
                        continue
                    new_code = code[k] ^ keys[here] ^ keys[s]
                    known = False
                    for m in range(count):
                        known |= pool_code[m] == new_code
                    if known:
                        continue
                    changed = True
                    m = count if count < width else width - 1
                    count = min(count + 1, width)
                    while m > 0 and pool_score[m - 1] < value:
                        copy_into(origin[m], origin[m - 1])
                        pool_score[m] = pool_score[m - 1]
                        pool_code[m] = pool_code[m - 1]
                        m -= 1
                    origin[m, PARENT] = k
                    origin[m, VARIABLE] = i
                    origin[m, STATE] = s - first
                    pool_score[m] = value
                    pool_code[m] = new_code
        if not changed:
            return step + 1, False
        # New assignments go to places without a previously cached one: their parents may be among those dropped.
        taken = np.zeros(len(x), np.bool_)
        for n in range(size[0]):
            taken[cache[n]] = True
        free = 0
        for n in range(count):
            k, i = origin[n, PARENT], origin[n, VARIABLE]
            if i < 0:
                cache[n] = k
                continue
            while taken[free]:
                free += 1
            taken[free] = True
            b = origin[n, STATE]
            copy_into(x[free], x[k])  # An assignment of slices takes 1.4 s to compile, for the text of an error.
            copy_into(kept[free], kept[k])
            copy_into(at[free], at[k])
            gain = local[k, var_ptr[i] + b] - local[k, var_ptr[i] + x[k, i]]
            score[free] = score[k] + gain
            code[free] = pool_code[n]
            depth[free] = depth[k] + 1
            expanded[free] = False
            state = MoveState(x[free], local[free], at[free], kept[free])
            move(arrays, state, i, b)
            if depth[free] >= _REFRESH or (score[k] < possible and score[free] >= possible):
                depth[free] = 0
                score[free] = rebuild_inline(arrays, state)
            cache[n] = free
        size[0] = count
    return steps, True
