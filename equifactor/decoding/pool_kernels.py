# mypy: ignore-errors
"""Solutions of one shot put together: where two solutions differ, each cluster of differences is chosen by itself.

The difference of two solutions flips no check. It falls into *clusters* of bits that share checks, directly or through
other bits of the cluster. A cluster alone flips no check either, so that a solution stays one if a cluster is swapped.
Clusters that make the best errors lighter are swapped. The others tell how sure the answer is: the lightest cluster
that flips an observable is the gap. Those that flip observables are kept while the shot is decoded.
"""

import numpy as np

from equifactor.decoding.check_rules import LANES
from equifactor.kernels.fastmath import get, put
from equifactor.kernels.jit import fast_kernel

KEPT = 8  # The number of clusters that are kept for a shot. Chosen by hand.
LONGEST = 192  # The largest number of bits of a cluster that is kept. Chosen by hand.
SURE = 16.0  # The gap of a shot is at most this times the share of legs that met the syndrome, if it is below 1/2.
_LESS = -1e-6  # A change of weight below this one is not due to rounding.
_NONE = np.uint64(0)


@fast_kernel
def pool_solution(checks, state, lane):
    """Swap the clusters in which `decided` is lighter than `best`; return whether there is one."""
    count = _clusters(checks, state, lane)
    improved = False
    first, change, flipped = state.cluster, state.change, state.flipped
    for n in range(count):
        own = get(first, n)
        if get(change, own) < _LESS:
            v = get(state.changed, n)
            put(state.best, v, get(state.best, v) ^ (np.uint32(1) << np.uint32(lane)))
            improved = True
    for n in range(count):
        own = get(first, n)
        if own == n:
            if get(change, n) < _LESS:
                state.best_weight[lane] += get(change, n)
            if get(flipped, n) != _NONE:
                _keep(state, lane, n, count)
    while improved and _swap_kept(state, lane):
        pass
    return improved


@fast_kernel
def _clusters(checks, state, lane):
    """Find the clusters of the bits in which `decided` and `best` differ, and return the number of these bits.

    `changed` lists the bits. `cluster` holds for each of them the place of the first bit of its cluster, and `change`
    and `flipped` hold at this place the change of weight by a swap, and the observables that it flips.
    """
    bit = np.uint32(1) << np.uint32(lane)
    changed, parent, cluster = state.changed, state.parent, state.cluster
    bit_ptr, check_of_bit = checks.bit_ptr, checks.check_of_bit
    count = 0
    for v in range(len(state.decided)):
        if (get(state.decided, v) ^ get(state.best, v)) & bit:
            put(changed, count, np.int32(v))
            for e in range(get(bit_ptr, v), get(bit_ptr, v + 1)):
                put(parent, get(check_of_bit, e), np.int32(-1))
            count += 1
    # The parent of a check is the place of a bit, and the parent of a bit is a smaller place or its own.
    for n in range(count):
        put(cluster, n, np.int32(n))
        v = get(changed, n)
        for e in range(get(bit_ptr, v), get(bit_ptr, v + 1)):
            c = get(check_of_bit, e)
            if get(parent, c) < 0:
                put(parent, c, np.int32(n))
            a, b = _root(cluster, get(parent, c)), _root(cluster, n)
            put(cluster, max(a, b), np.int32(min(a, b)))
    for n in range(count):
        own = _root(cluster, n)
        put(cluster, n, np.int32(own))
        if own == n:
            put(state.change, n, 0.0)
            put(state.flipped, n, _NONE)
        v = get(changed, n)
        ratio = np.float64(get(state.ratio, v * LANES + lane))
        put(state.change, own, get(state.change, own) + (-ratio if get(state.best, v) & bit else ratio))
        put(state.flipped, own, get(state.flipped, own) ^ get(checks.flips, v))
    return count


@fast_kernel
def _root(cluster, n):
    while get(cluster, n) != n:
        n = get(cluster, n)
    return n


@fast_kernel
def _keep(state, lane, own, count):
    """Keep the cluster whose first bit has the place `own`, in the place of an empty or the heaviest one."""
    size, key = 0, _NONE
    for n in range(own, count):
        if get(state.cluster, n) == own:
            size += 1
            z = np.uint64(get(state.changed, n) + 1) * np.uint64(0xBF58476D1CE4E5B9)
            key += z ^ (z >> np.uint64(31))
    if size > LONGEST:
        return
    change = abs(get(state.change, own))
    place, heaviest = -1, change
    for k in range(KEPT):
        if state.kept_size[lane, k] and state.kept_key[lane, k] == key:
            return
    for k in range(KEPT):
        if state.kept_size[lane, k] == 0:
            place = k
            break
        weight = _change_of(state, lane, k)
        if weight > heaviest:
            place, heaviest = k, weight
    if place < 0:
        return
    state.kept_size[lane, place], state.kept_key[lane, place] = size, key
    k = 0
    for n in range(own, count):
        if get(state.cluster, n) == own:
            state.kept_bits[lane, place, k] = get(state.changed, n)
            k += 1


@fast_kernel
def _change_of(state, lane, k):
    """Return the change of weight if a kept cluster is swapped."""
    bit = np.uint32(1) << np.uint32(lane)
    change = 0.0
    for n in range(state.kept_size[lane, k]):
        v = state.kept_bits[lane, k, n]
        ratio = np.float64(get(state.ratio, v * LANES + lane))
        change += -ratio if get(state.best, v) & bit else ratio
    return change


@fast_kernel
def _swap_kept(state, lane):
    """Swap the first kept cluster that makes the best errors lighter, if there is one."""
    bit = np.uint32(1) << np.uint32(lane)
    for k in range(KEPT):
        change = _change_of(state, lane, k)
        if change < _LESS:
            for n in range(state.kept_size[lane, k]):
                v = state.kept_bits[lane, k, n]
                put(state.best, v, get(state.best, v) ^ bit)
            state.best_weight[lane] += change
            return True
    return False


@fast_kernel
def gap_of(state, lane, solutions, legs):
    """Return the smallest change of weight by a kept cluster, or less if few legs met the syndrome.

    All kept clusters flip observables. Where most legs fail, other solutions exist that were not found.
    """
    gap = np.inf if 2 * solutions > legs else SURE * solutions / (legs + 1)
    for k in range(KEPT):
        if state.kept_size[lane, k]:
            gap = min(gap, _change_of(state, lane, k))
    return max(gap, 0.0)
