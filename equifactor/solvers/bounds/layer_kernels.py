# mypy: ignore-errors
"""Kernels that build layers: clusters that grow with their factors, links between clusters, and strides.

Variables are places in the order of elimination. A cluster is its variable and a separator: the later variables of
its message, ascending.
"""

from typing import NamedTuple

import numpy as np

from equifactor.base.typing import FloatArray, IntArray
from equifactor.kernels.jit import inlined, kernel


class PlacedScopes(NamedTuple):
    """The scopes of the factors, ascending, and the factors of each variable."""

    bits: FloatArray  # [V] log2 of the states of each variable
    ptr: IntArray  # [F+1]
    places: IntArray  # [E]
    around_ptr: IntArray  # [V+1]
    around: IntArray  # [E] factors


class GrowingClusters(NamedTuple):
    """One cluster for each variable, none above a size, and a journal to undo the last step."""

    separator: IntArray  # [V, W]
    width: IntArray  # [V] variables of each separator
    journal: IntArray  # [V, W+2] a variable, the width of its separator before the current step, and that separator
    stamp: IntArray  # [V+2] the last step that changed each variable; the current step; entries in the journal
    rest: IntArray  # [W+k] scratch: the variables of a message
    wider: IntArray  # [2W+k] scratch: a separator with these variables


@inlined
def _begin(clusters):
    """Begin a step, which can be undone until the next one begins."""
    stamp = clusters.stamp
    stamp[-2] += 1
    stamp[-1] = 0


@inlined
def _undo(clusters):
    """Undo the current step."""
    for n in range(clusters.stamp[-1]):
        v, width = clusters.journal[n, 0], clusters.journal[n, 1]
        clusters.width[v] = width
        for j in range(width):
            clusters.separator[v, j] = clusters.journal[n, 2 + j]


@inlined
def _widen(first, count, most, bits, clusters):
    """Add a table over `first` and the `count` later variables in `rest`; return False if a cluster becomes too large.

    New variables of a separator are passed on to the cluster that receives the message, and so on while some are new.
    """
    separator, rest, wider, stamp = clusters.separator, clusters.rest, clusters.wider, clusters.stamp
    fits = True
    while count > 0 and fits:
        width = clusters.width[first]
        size, n, i, j = bits[first], 0, 0, 0
        while i < width or j < count:  # the union of two ascending lists
            take = separator[first, i] if j == count or (i < width and separator[first, i] <= rest[j]) else rest[j]
            if i < width and separator[first, i] == take:
                i += 1
            if j < count and rest[j] == take:
                j += 1
            wider[n] = take
            size += bits[take]
            n += 1
        if n == width:
            break
        fits = size <= most
        if fits:
            if stamp[first] != stamp[-2]:
                stamp[first] = stamp[-2]
                noted = stamp[-1]
                clusters.journal[noted, 0], clusters.journal[noted, 1] = first, width
                for i in range(width):
                    clusters.journal[noted, 2 + i] = separator[first, i]
                stamp[-1] += 1
            clusters.width[first] = n
            for i in range(n):
                separator[first, i] = wider[i]
            first, count = wider[0], n - 1
            for i in range(count):
                rest[i] = wider[i + 1]
    return fits


@kernel
def take_factors(factors, most, scopes, clusters, taken):
    """Add factors in order, unless a cluster would exceed `most` bits, and set taken [F]."""
    scopes, clusters = PlacedScopes(*scopes), GrowingClusters(*clusters)
    for a in factors:
        start, stop = scopes.ptr[a], scopes.ptr[a + 1]
        for e in range(start + 1, stop):
            clusters.rest[e - start - 1] = scopes.places[e]
        _begin(clusters)
        if _widen(scopes.places[start], stop - start - 1, most, scopes.bits, clusters):
            taken[a] = True
        else:
            _undo(clusters)


@kernel
def take_variables(start, stop, allowed, most, scopes, clusters, inside):
    """Let allowed [V] variables from `start` to `stop` join `inside` [V] unless a cluster would exceed `most` bits.

    A variable brings all its factors, restricted to the variables inside.
    """
    scopes, clusters = PlacedScopes(*scopes), GrowingClusters(*clusters)
    for v in range(start, stop):
        if allowed[v]:
            inside[v] = True
            _begin(clusters)
            fits = True
            for r in range(scopes.around_ptr[v], scopes.around_ptr[v + 1]):
                a = scopes.around[r]
                first, count = -1, 0
                for e in range(scopes.ptr[a], scopes.ptr[a + 1]):
                    if inside[scopes.places[e]]:
                        if first < 0:
                            first = scopes.places[e]
                        else:
                            clusters.rest[count] = scopes.places[e]
                            count += 1
                fits = fits and _widen(first, count, most, scopes.bits, clusters)
            if not fits:
                _undo(clusters)
                inside[v] = False


@kernel
def steps_from(start, scopes):
    """Return [V] steps from the variables of start [V]; V for variables that cannot be reached."""
    scopes = PlacedScopes(*scopes)
    far = np.full(len(start), len(start))
    queue = np.empty(len(start), np.int64)
    tail = 0
    for v in range(len(start)):
        if start[v]:
            far[v] = 0
            queue[tail] = v
            tail += 1
    head = 0
    while head < tail:
        v = queue[head]
        head += 1
        for r in range(scopes.around_ptr[v], scopes.around_ptr[v + 1]):
            a = scopes.around[r]
            for e in range(scopes.ptr[a], scopes.ptr[a + 1]):
                u = scopes.places[e]
                if far[u] == len(start):
                    far[u] = far[v] + 1
                    queue[tail] = u
                    tail += 1
    return far


@kernel
def link_clusters(bucket_ptr, axis_ptr, axes, bits, room, links, scope_ptr, scope):
    """Link the clusters of each bucket in pairs, first the pairs that share most.

    Fills links [n, 2] and the variables that each link shares, at most `room` bits of them: latest first, as in `axes`,
    with the variable of the bucket at the end. Returns the number of these variables.
    """
    made, used = 0, 0
    most = 0
    for b in range(len(bucket_ptr) - 1):
        most = max(most, bucket_ptr[b + 1] - bucket_ptr[b])
    common, partner = np.empty(most), np.empty(most, np.int64)
    for b in range(len(bucket_ptr) - 1):
        first, count = bucket_ptr[b], bucket_ptr[b + 1] - bucket_ptr[b]
        for j in range(count):
            common[j], partner[j] = -1.0, first
        common[0] = np.inf  # is linked
        new = first
        for _ in range(count - 1):
            best = -1
            for j in range(count):
                if common[j] < np.inf:
                    shared = _shared_bits(new, first + j, axis_ptr, axes, bits)
                    if shared > common[j]:
                        common[j], partner[j] = shared, new
                    if best < 0 or common[j] > common[best]:
                        best = j
            one, new = partner[best], first + best
            common[best] = np.inf
            links[made] = one, new
            made += 1
            used = _shared_scope(one, new, axis_ptr, axes, bits, room, scope, used)
            scope_ptr[made] = used
    return used


@inlined
def _shared_bits(one, other, axis_ptr, axes, bits):
    """Return log2 of the joint states of the variables that two clusters share."""
    i, j, shared = axis_ptr[one], axis_ptr[other], 0.0
    while i < axis_ptr[one + 1] and j < axis_ptr[other + 1]:  # both descend
        if axes[i] == axes[j]:
            shared += bits[axes[i]]
            i += 1
            j += 1
        elif axes[i] > axes[j]:
            i += 1
        else:
            j += 1
    return shared


@inlined
def _shared_scope(one, other, axis_ptr, axes, bits, room, scope, used):
    """Write the earliest variables that two clusters share, as many as there is room for; return where they end."""
    i, j, start = axis_ptr[one + 1] - 1, axis_ptr[other + 1] - 1, used
    while i >= axis_ptr[one] and j >= axis_ptr[other]:
        if axes[i] == axes[j]:
            if bits[axes[i]] <= room or used == start:
                scope[used] = axes[i]
                used += 1
                room -= bits[axes[i]]
            i -= 1
            j -= 1
        elif axes[i] < axes[j]:
            i -= 1
        else:
            j -= 1
    for k in range((used - start) // 2):
        scope[start + k], scope[used - 1 - k] = scope[used - 1 - k], scope[start + k]
    return used


@kernel
def steps_along_axes(cluster, item_ptr, items, steps, axis_ptr, axes, stride_ptr, strides):
    """Fill strides with the steps of each operand's variables, `items`, along the axes of its cluster."""
    for o in range(len(cluster)):
        first, last = axis_ptr[cluster[o]], axis_ptr[cluster[o] + 1]
        for i in range(item_ptr[o], item_ptr[o + 1]):
            for a in range(first, last):
                if axes[a] == items[i]:
                    strides[stride_ptr[o] + a - first] = steps[i]


@kernel
def shift_clusters(links, link_ptr, dim, gets, shift):
    """Fill shift [L] so that each cluster gets a function of its variable, gets [C, widest]; these sum to zero.

    The clusters of a bucket form a tree. The second end of each link is new, so in reverse order it is a leaf.
    """
    for n in range(len(links) - 1, -1, -1):
        one, other = links[n]
        for k in range(link_ptr[n + 1] - link_ptr[n]):
            shift[link_ptr[n] + k] = -gets[other, k % dim[one]]
        for x in range(dim[one]):
            gets[one, x] += gets[other, x]
