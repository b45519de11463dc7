# mypy: ignore-errors
"""A beam search over sets of errors, level by level: every state on level k is a set of k errors.

The *residual* of a state are the checks that its errors leave unmet. A state is continued by the errors of one unmet
check, the first in the order of the code. Each level keeps the states with the smallest estimates of the weight of the
whole set: the weight so far and the *cost* of every unmet check. The cost of a check is the least share of weight for
which one of its errors can meet it, if an error divides its weight equally among the unmet checks that it touches. The
sum of costs is a lower bound on the weight that is still needed, so that states that cannot end near the lightest known
set are dropped.

States of a level that have the same residual and flip the same observables are merged. The *number* of a state is the
sum of the probabilities of its sets over that of its lightest set. So the search also adds up the probabilities of
the sets that flip the same observables.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equifactor.base.typing import FloatArray, IntArray
from equifactor.kernels.fastmath import get, put
from equifactor.kernels.heaps import lower_key
from equifactor.kernels.jit import fast_kernel, inlined

CLASSES = 8  # The number of classes, which flip different observables, that are kept for a shot. Chosen by hand.
LEVELS = 400  # The largest number of errors of a set. Chosen by hand.
PROBES = 64  # The number of places at which a set is looked for. Chosen by hand.
_EMPTY = 1e30  # The estimate of a place without a state, above all weights.
_LEVEL = 1e-6  # Weights that differ by less are equal.
_ONE = np.uint64(1)


class SearchedCode(NamedTuple):
    """The code: bits and checks of each other."""

    check_ptr: IntArray  # [M+1]
    bit_of_edge: NDArray[np.int32]  # [E] check by check; in each the bits with the least weight per check first
    bit_ptr: IntArray  # [V+1]
    check_of_bit: NDArray[np.int32]  # [E] bit by bit
    near_ptr: IntArray  # [M+1]
    near: NDArray[np.int32]  # the checks that share a bit with a check, and itself
    flips: NDArray[np.uint64]  # [V] the observables that every bit flips, or a key of them
    check_key: NDArray[np.uint64]  # [M] random words, whose sum modulo 2 names a residual
    bit_key: NDArray[np.uint64]  # [V] random words, whose sum modulo 2 names a set


class SearchSettings(NamedTuple):
    """The settings of `equifactor.decoding.methods.SearchDecoding`."""

    beam: int
    margin: float
    greed: float
    surprise: float
    is_sorted: bool  # whether the order of `bit_of_edge` holds: all shots have the same weights


class SearchedShots(NamedTuple):
    """Shots and their answers, which begin with what is known."""

    syndrome: NDArray[np.uint8]  # [C, M] the checks that are unmet if the likelier value of every bit is taken
    size: NDArray[np.float32]  # [C, V] or [1, V] sizes of the log ratios
    weight: FloatArray  # [C, CLASSES] the weight of the lightest set of each class; infinite for an empty place
    log_sum: FloatArray  # [C, CLASSES] the logarithm of the sum of the probabilities of its sets
    flipped: NDArray[np.uint64]  # [C, CLASSES] the observables that a class flips
    length: NDArray[np.int32]  # [C, CLASSES] the number of errors of the lightest set, or -1 if it is the known one
    errors: NDArray[np.int32]  # [C, CLASSES, LEVELS] the errors of the lightest set
    work: IntArray  # [C] the number of states that were continued


class ErrorBeam(NamedTuple):
    """The states of two levels, and the places of the next level."""

    residual: NDArray[np.uint64]  # [2, B, words]
    weight: FloatArray  # [2, B]
    number: FloatArray  # [2, B] see the head of the file
    flipped: NDArray[np.uint64]  # [2, B]
    key: NDArray[np.uint64]  # [2, B] of the residual
    members: NDArray[np.uint64]  # [2, B] the key of the lightest set
    parent: NDArray[np.int32]  # [LEVELS + 1, B]
    bit: NDArray[np.int32]  # [LEVELS + 1, B] the error that was added last
    estimate: FloatArray  # [B+3] a heap of the places, the largest estimate first
    item: IntArray  # [B]
    place: IntArray  # [B]
    slot_parent: NDArray[np.int32]  # [B] by place of the next level, like the next fields
    slot_bit: NDArray[np.int32]  # [B]
    slot_weight: FloatArray  # [B]
    slot_number: FloatArray  # [B]
    slot_key: NDArray[np.uint64]  # [B] of the residual and the observables
    slot_members: NDArray[np.uint64]  # [B]
    table: NDArray[np.int32]  # [power of two] a hash table of places by their keys, -1 where empty
    seen: NDArray[np.uint64]  # [power of two] a hash table of the sets of a shot that meet its syndrome
    mark: NDArray[np.int32]  # [V] the last state of which a bit is a member
    unmet: NDArray[np.int32]  # [M] the unmet checks of a state
    renewed: NDArray[np.int32]  # [M] the last state for which the cost of a check was computed
    cost: NDArray[np.float32]  # [2, B, M] the costs of the unmet checks of a state
    new_cost: FloatArray  # [M] the estimated cost of a check that an error leaves unmet


@fast_kernel
def search_shots(code, settings, shots, beam):
    """Search all shots."""
    code, settings = SearchedCode(*code), SearchSettings(*settings)
    shots, beam = SearchedShots(*shots), ErrorBeam(*beam)
    beam.mark[:] = 0
    beam.renewed[:] = 0
    mark = 0
    for n in range(len(shots.syndrome)):
        size = shots.size[n if len(shots.size) > 1 else 0]
        if n == 0 or len(shots.size) > 1:
            _set_new_costs(code, settings, size, beam)
        residual = beam.residual[0, 0]
        residual[:] = np.uint64(0)
        key = np.uint64(0)
        for c in range(len(beam.unmet)):
            if shots.syndrome[n, c]:
                residual[c >> 6] |= _ONE << np.uint64(c & 63)
                key ^= get(code.check_key, c)
        beam.weight[0, 0], beam.number[0, 0], beam.flipped[0, 0] = 0.0, 1.0, np.uint64(0)
        beam.key[0, 0], beam.members[0, 0] = key, np.uint64(0)
        beam.seen[:] = np.uint64(0)
        count, level = 1, 0
        while count > 0 and level < LEVELS:
            mark = _expand_level(code, settings, shots, beam, size, n, count, level, mark)
            count = _next_level(code, settings, shots, beam, n, level)
            level += 1


@fast_kernel
def _set_new_costs(code, settings, size, beam):
    """Compute the least weight per check among the bits of every check."""
    for c in range(len(beam.unmet)):
        least = _EMPTY
        for e in range(code.check_ptr[c], code.check_ptr[c + 1]):
            v = np.int64(get(code.bit_of_edge, e))
            least = min(least, get(size, v) / (get(code.bit_ptr, v + 1) - get(code.bit_ptr, v)))
        beam.new_cost[c] = settings.surprise * least


@fast_kernel
def _expand_level(code, settings, shots, beam, size, n, count, level, mark):
    """Put the best continuations of all states of a level into the places of the next level; return the last mark."""
    side = level & 1
    places = len(beam.item)
    for k in range(places):
        beam.item[k] = beam.place[k] = k
        beam.estimate[k] = _EMPTY
        beam.slot_bit[k] = -1
    beam.table[:] = -1
    inserted = 0
    for s in range(count):
        mark += 1
        own = s
        for back in range(level, 0, -1):
            put(beam.mark, np.int64(beam.bit[back, own]), np.int32(mark))
            own = np.int64(beam.parent[back, own])
        residual, weight = beam.residual[side, s], beam.weight[side, s]
        count_unmet, bound = _costs(code, settings, beam, size, s, level, mark)
        cost = beam.cost[side, s]
        if weight + bound > _limit(shots, settings, n):
            continue
        shots.work[n] += 1
        first = beam.unmet[0]
        for e in range(code.check_ptr[first], code.check_ptr[first + 1]):
            v = np.int64(get(code.bit_of_edge, e))
            if get(beam.mark, v) == mark:
                continue
            heavier = weight + get(size, v)
            rest, left = bound, count_unmet
            key = beam.key[side, s] ^ _mixed(beam.flipped[side, s] ^ get(code.flips, v))
            for k in range(get(code.bit_ptr, v), get(code.bit_ptr, v + 1)):
                c = np.int64(get(code.check_of_bit, k))
                key ^= get(code.check_key, c)
                if (get(residual, c >> 6) >> np.uint64(c & 63)) & _ONE:
                    rest -= get(cost, c)
                    left -= 1
                else:
                    rest += get(beam.new_cost, c)
                    left += 1
            members = beam.members[side, s] ^ get(code.bit_key, v)
            if left == 0:
                if not _is_seen(beam, members):
                    _keep_set(code, shots, beam, n, level, s, v, heavier)
                continue
            estimate = heavier + settings.greed * rest
            if estimate >= beam.estimate[0]:
                continue
            number = beam.number[side, s]
            slot, t = _find(beam, key)
            if slot >= 0:
                if beam.slot_members[slot] == members:
                    continue  # The same set in another order.
                if heavier >= beam.slot_weight[slot] - _LEVEL:
                    beam.slot_number[slot] += number * np.exp(beam.slot_weight[slot] - heavier)
                    continue
                number += beam.slot_number[slot] * np.exp(heavier - beam.slot_weight[slot])
            else:
                slot = beam.item[0]
                beam.table[t] = slot
                inserted += 1
            lower_key(beam.estimate, beam.item, beam.place, slot, estimate)
            beam.slot_parent[slot], beam.slot_bit[slot] = s, v
            beam.slot_weight[slot], beam.slot_number[slot] = heavier, number
            beam.slot_key[slot], beam.slot_members[slot] = key, members
            if 2 * inserted > len(beam.table):
                inserted = _fill_table(beam)
    return mark


@fast_kernel
def _limit(shots, settings, n):
    """Return the largest weight of sets that are of interest."""
    lightest = shots.weight[n, 0]
    for k in range(1, CLASSES):
        lightest = min(lightest, shots.weight[n, k])
    return lightest + settings.margin - _LEVEL


@fast_kernel
def _costs(code, settings, beam, size, s, level, mark):
    """Compute the costs of the unmet checks of a state; return their number and the sum of their costs.

    The error that was added last changes the costs of checks that share an error with one of its checks. The others are
    those of the parent.
    """
    side = level & 1
    residual, own, count = beam.residual[side, s], beam.cost[side, s], 0
    for w in range(len(residual)):
        word = get(residual, w)
        c = w << 6
        while word:
            if word & _ONE:
                put(beam.unmet, count, np.int32(c))
                count += 1
            word >>= _ONE
            c += 1
    if level > 0:
        before = beam.cost[1 - side, np.int64(beam.parent[level, s])]
        for n in range(count):
            c = np.int64(get(beam.unmet, n))
            put(own, c, get(before, c))
        v = np.int64(beam.bit[level, s])
        for k in range(get(code.bit_ptr, v), get(code.bit_ptr, v + 1)):
            changed = np.int64(get(code.check_of_bit, k))
            for n in range(get(code.near_ptr, changed), get(code.near_ptr, changed + 1)):
                put(beam.renewed, np.int64(get(code.near, n)), np.int32(mark))
    total = 0.0
    for n in range(count):
        c = np.int64(get(beam.unmet, n))
        if level == 0 or get(beam.renewed, c) == mark:
            put(own, c, np.float32(_cost(code, settings, beam, size, residual, mark, c)))
        total += get(own, c)
    return count, total


@fast_kernel
def _cost(code, settings, beam, size, residual, mark, c):
    """Return the least share of weight for which an error that is not a member of the state meets a check."""
    least = _EMPTY
    for e in range(get(code.check_ptr, c), get(code.check_ptr, c + 1)):
        v = np.int64(get(code.bit_of_edge, e))
        begin, end = get(code.bit_ptr, v), get(code.bit_ptr, v + 1)
        if get(size, v) >= least * (end - begin):
            if settings.is_sorted:
                break
            continue
        if get(beam.mark, v) == mark:
            continue
        touched = np.uint64(0)
        for k in range(begin, end):
            other = np.int64(get(code.check_of_bit, k))
            touched += (get(residual, other >> 6) >> np.uint64(other & 63)) & _ONE
        least = min(least, get(size, v) / np.float64(touched))
    return least


@inlined
def _mixed(flipped):
    """Return a word for the observables that a state flips."""
    return flipped * np.uint64(0x9E3779B97F4A7C15)


@fast_kernel
def _is_seen(beam, members):
    """Return whether a set has met the syndrome before, and note it."""
    last = len(beam.seen) - 1
    t = np.int64(members >> np.uint64(20)) & last
    for _ in range(PROBES):
        if get(beam.seen, t) == members:
            return True
        if get(beam.seen, t) == np.uint64(0):
            put(beam.seen, t, members)
            return False
        t = (t + 1) & last
    return True  # The table is full.


@fast_kernel
def _find(beam, key):
    """Return the place with a key, or -1, and where the hash table has or would have it."""
    last = len(beam.table) - 1
    t = np.int64(key >> np.uint64(20)) & last
    while get(beam.table, t) >= 0:
        slot = np.int64(get(beam.table, t))
        if get(beam.slot_key, slot) == key and get(beam.slot_bit, slot) >= 0:
            return slot, t
        t = (t + 1) & last
    return -1, t


@fast_kernel
def _fill_table(beam):
    """Rebuild the hash table from the places in use, and return their number."""
    beam.table[:] = -1
    count = 0
    for slot in range(len(beam.item)):
        if beam.slot_bit[slot] >= 0:
            beam.table[_find(beam, beam.slot_key[slot])[1]] = slot
            count += 1
    return count


@fast_kernel
def _keep_set(code, shots, beam, n, level, s, v, weight):
    """Add a set that meets the syndrome to its class. The class that is the least likely makes room for a new one."""
    side = level & 1
    flipped = beam.flipped[side, s] ^ code.flips[v]
    log_sum = np.log(beam.number[side, s]) - weight
    place, worst = -1, log_sum
    for k in range(CLASSES):
        if shots.weight[n, k] < np.inf and shots.flipped[n, k] == flipped:
            place = k
            break
        if shots.weight[n, k] == np.inf or shots.log_sum[n, k] < worst:
            place, worst = k, -np.inf if shots.weight[n, k] == np.inf else shots.log_sum[n, k]
    if place < 0:
        return
    is_new = not (shots.weight[n, place] < np.inf and shots.flipped[n, place] == flipped)
    if is_new:
        shots.weight[n, place], shots.log_sum[n, place] = np.inf, -np.inf
        shots.flipped[n, place] = flipped
    elif shots.length[n, place] < 0 and abs(weight - shots.weight[n, place]) < 1e-3:
        shots.log_sum[n, place] = -np.inf  # The known set, whose weight was rounded.
    if weight < shots.weight[n, place] + (1e-3 if shots.length[n, place] < 0 else 0.0):
        shots.weight[n, place] = weight
        shots.length[n, place] = level + 1
        shots.errors[n, place, 0] = v
        own = s
        for back in range(level, 0, -1):
            shots.errors[n, place, back] = beam.bit[back, own]
            own = np.int64(beam.parent[back, own])
    a, b = shots.log_sum[n, place], log_sum
    high = max(a, b)
    shots.log_sum[n, place] = high + np.log(np.exp(a - high) + np.exp(b - high))


@fast_kernel
def _next_level(code, settings, shots, beam, n, level):
    """Make states of the places in use; return their number."""
    side, count = level & 1, 0
    limit = _limit(shots, settings, n)
    for slot in range(len(beam.item)):
        v = np.int64(beam.slot_bit[slot])
        if v < 0 or beam.slot_weight[slot] > limit:
            continue
        s = np.int64(beam.slot_parent[slot])
        own = beam.residual[1 - side, count]
        own[:] = beam.residual[side, s]
        for k in range(code.bit_ptr[v], code.bit_ptr[v + 1]):
            c = np.int64(code.check_of_bit[k])
            own[c >> 6] ^= _ONE << np.uint64(c & 63)
        beam.weight[1 - side, count], beam.number[1 - side, count] = beam.slot_weight[slot], beam.slot_number[slot]
        beam.flipped[1 - side, count] = beam.flipped[side, s] ^ code.flips[v]
        beam.key[1 - side, count] = beam.slot_key[slot] ^ _mixed(beam.flipped[1 - side, count])
        beam.members[1 - side, count] = beam.slot_members[slot]
        beam.parent[level + 1, count], beam.bit[level + 1, count] = s, v
        count += 1
    return count
