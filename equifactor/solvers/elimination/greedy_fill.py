# mypy: ignore-errors
"""One try of an elimination order by fewest pairs to join (min-fill)."""

import math

import numpy as np

from equifactor.numerics.jit import kernel
from equifactor.solvers.elimination.greedy import SPREAD, longer, pay, settle

_TIE = 1e-4  # weight of the cluster's size, which decides between equals


@kernel
def by_fill(
    ptr, adj0, bits, weight, noise, label, most_entries, most_kept, most_message, most_work, entries, kept, largest,
    place, seed,
):  # fmt: skip
    """Always the variable whose neighbours lack the fewest edges among them (min-fill), weighted by `weight` [V].

    fill[i] is the weight of the pairs of neighbours of i that are not joined, kept up to date edge by edge:
    a new edge (a, b) takes its weight from every common neighbour, and gives a (and b) the pairs of b (a) with the
    neighbours of a (b) that do not know it. `noise` multiplies prices by random numbers from 1 to 1 + noise.
    """
    np.random.seed(seed)  # noqa: NPY002 - Numba's own generator, not that of numpy
    num_vars = len(ptr) - 1
    start = np.empty(num_vars, np.int64)
    degree = np.empty(num_vars, np.int64)
    room = np.empty(num_vars, np.int64)
    end = 0
    for i in range(num_vars):
        start[i] = end
        degree[i] = ptr[i + 1] - ptr[i]
        room[i] = 2 * degree[i] + 4
        end += room[i]
    adj = np.empty(2 * end + 64, np.int64)
    for i in range(num_vars):
        for r in range(degree[i]):
            adj[start[i] + r] = adj0[ptr[i] + r]
    seen = np.full(num_vars, -1, np.int64)
    fill, around, size = _first_prices(start, degree, adj, bits, weight, seen)
    seen[:] = -1
    stamp = 0

    key = np.empty(num_vars)
    heap = np.arange(num_vars)
    where = np.arange(num_vars)
    for i in range(num_vars):
        key[i] = _fill_price(noise, fill[i], size[i] + bits[i])
    for n in range(num_vars // 2 - 1, -1, -1):
        settle(heap, where, key, n, num_vars)
    entries[:] = 0.0
    kept[:] = 0.0
    largest[:] = 0.0
    alive = len(entries)
    touched = np.empty(num_vars, np.int64)
    dirty = np.zeros(num_vars, np.bool_)
    work = 0.0
    left = num_vars
    while left > 0 and alive > 0:
        v = heap[0]
        left -= 1
        heap[0] = heap[left]
        where[heap[0]] = 0
        if left > 0:
            settle(heap, where, key, 0, left)
        c = label[v]
        if entries[c] == math.inf:
            continue
        if work > most_work:
            entries[:] = math.inf
            break
        place[v] = num_vars - left
        total = bits[v]
        first, k = start[v], degree[v]
        for r in range(first, first + k):
            total += bits[adj[r]]
        if pay(c, total, bits[v], most_entries, most_kept, most_message, entries, kept, largest):
            alive -= 1
            continue

        # v leaves: its neighbours lose the open pairs they had with it
        count = 0
        stamp += 1
        for r in range(first, first + k):
            seen[adj[r]] = stamp
        for r in range(first, first + k):
            u = adj[r]
            known = 0.0
            at = -1
            for s in range(start[u], start[u] + degree[u]):
                x = adj[s]
                if x == v:
                    at = s
                elif seen[x] == stamp:
                    known += weight[x]
            work += degree[u]
            degree[u] -= 1
            adj[at] = adj[start[u] + degree[u]]
            around[u] -= weight[v]
            size[u] -= bits[v]
            fill[u] -= weight[v] * (around[u] - known)
            dirty[u] = True
            touched[count] = u
            count += 1

        # its neighbours become a clique
        if fill[v] > 0.0:
            for r in range(first, first + k):
                a = adj[r]
                stamp += 1
                for s in range(start[a], start[a] + degree[a]):
                    seen[adj[s]] = stamp
                seen[a] = stamp
                work += degree[a]
                for q in range(r + 1, first + k):
                    b = adj[q]
                    if seen[b] == stamp:
                        continue
                    if degree[a] == room[a] or degree[b] == room[b]:
                        need = 2 * (room[a] + room[b])
                        if end + need > len(adj):
                            adj = longer(adj, end, 2 * (end + need))
                        for u in (a, b):
                            if degree[u] == room[u]:
                                for s in range(degree[u]):
                                    adj[end + s] = adj[start[u] + s]
                                start[u] = end
                                room[u] *= 2
                                end += room[u]
                    both = weight[a] * weight[b]
                    known = 0.0
                    for s in range(start[b], start[b] + degree[b]):
                        x = adj[s]
                        if seen[x] == stamp:
                            known += weight[x]
                            fill[x] -= both
                            if not dirty[x]:
                                dirty[x] = True
                                touched[count] = x
                                count += 1
                    work += degree[b]
                    fill[a] += weight[b] * (around[a] - known)
                    fill[b] += weight[a] * (around[b] - known)
                    around[a] += weight[b]
                    around[b] += weight[a]
                    size[a] += bits[b]
                    size[b] += bits[a]
                    adj[start[a] + degree[a]] = b
                    adj[start[b] + degree[b]] = a
                    degree[a] += 1
                    degree[b] += 1
                    seen[b] = stamp
        work += 8 * count + 16
        for n in range(count):
            u = touched[n]
            dirty[u] = False
            key[u] = _fill_price(noise, fill[u], size[u] + bits[u])
            settle(heap, where, key, where[u], left)
    return work


@kernel
def _first_prices(start, degree, adj, bits, weight, seen):
    """Open pairs, and weight and bits of the neighbours, of every variable at the beginning.

    Every triangle is met once, at its member of lowest degree: a variable with many neighbours is not walked for each.
    """
    num_vars = len(degree)
    around = np.zeros(num_vars)
    size = np.zeros(num_vars)
    fill = np.zeros(num_vars)
    for i in range(num_vars):
        square = 0.0
        for r in range(start[i], start[i] + degree[i]):
            around[i] += weight[adj[r]]
            square += weight[adj[r]] ** 2
            size[i] += bits[adj[r]]
        fill[i] = (around[i] ** 2 - square) / 2
    later = np.empty(num_vars, np.int64)
    for i in range(num_vars):
        count = 0
        for r in range(start[i], start[i] + degree[i]):
            j = adj[r]
            seen[j] = i
            if degree[j] > degree[i] or (degree[j] == degree[i] and j > i):
                later[count] = j
                count += 1
        for n in range(count):
            j = later[n]
            for s in range(start[j], start[j] + degree[j]):
                k = adj[s]
                if seen[k] == i and (degree[k] > degree[j] or (degree[k] == degree[j] and k > j)):
                    fill[i] -= weight[j] * weight[k]
                    fill[j] -= weight[i] * weight[k]
                    fill[k] -= weight[i] * weight[j]
    return fill, around, size


@kernel
def _fill_price(noise, fill, size):
    r = np.random.random()  # noqa: NPY002 - all that Numba has
    return fill * (1.0 + noise * r) + _TIE * size + SPREAD * r
