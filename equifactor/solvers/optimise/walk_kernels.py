# mypy: ignore-errors
"""Walks by single-variable moves: steepest ascent and tabu search.

`gain [V]` and `choice [V]` hold for every variable its best other state; both kernels fill them at the start.
"""

import numpy as np

from equifactor.numerics.heaps import settle
from equifactor.numerics.jit import fast_kernel
from equifactor.numerics.moves import TO, best_change, move
from equifactor.numerics.randomness import random_below


@fast_kernel
def ascend(
    var_ptr, unary, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, gain, choice, heap, place,
    moves, least,
):  # fmt: skip
    """Best single-variable improvement until none gains more than `least`, at most `moves` of them.

    heap, place [V] are scratch. Returns what the score gained, and the number of moves.
    """
    for i in range(len(x)):
        gain[i] = -np.inf
        heap[i] = i
        place[i] = i
    for i in range(len(x)):  # one key at a time: `settle` needs all others in order
        best_change(var_ptr, local, x, gain, choice, i)
        settle(heap, place, gain, place[i], len(x))
    risen = 0.0
    done = 0
    while done < moves and len(x) > 0 and gain[heap[0]] > least:
        i = heap[0]
        risen += gain[i]
        move(
            var_ptr, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, i, choice[i]
        )  # fmt: skip
        best_change(var_ptr, local, x, gain, choice, i)
        settle(heap, place, gain, place[i], len(x))
        for r in range(arc_ptr[i], arc_ptr[i + 1]):
            j = arcs[r, TO]
            best_change(var_ptr, local, x, gain, choice, j)
            settle(heap, place, gain, place[j], len(x))
        done += 1
    return risen, done


@fast_kernel
def tabu(
    var_ptr, unary, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, gain, choice, until,
    best_x, rng, moves, score, best, shortest, longest, least,
):  # fmt: skip
    """So many best moves, good or bad, a moved variable resting for `shortest` to `longest` moves.

    A resting variable may move only to beat the best score. until [V] is scratch; the best assignment met goes to
    best_x [V] when it beats `best` by more than `least`. Returns the last score and the best one.
    """
    for i in range(len(x)):
        best_change(var_ptr, local, x, gain, choice, i)
        until[i] = 0
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
            best_x[:] = x
            unsaved = False
        if i < 0:
            continue  # every variable rests
        move(
            var_ptr, arc_ptr, arcs, pair, high_ptr, high, slots, factors, table, x, local, at, i, choice[i]
        )  # fmt: skip
        score += top
        until[i] = now + shortest + random_below(rng, longest - shortest + 1)
        best_change(var_ptr, local, x, gain, choice, i)
        for r in range(arc_ptr[i], arc_ptr[i + 1]):
            best_change(var_ptr, local, x, gain, choice, arcs[r, TO])
        if score > best + least:
            best = score
            unsaved = True
    if unsaved:
        best_x[:] = x
    return score, best
