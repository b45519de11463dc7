# mypy: ignore-errors
"""One try of an elimination order by fewest missing edges among neighbours (min-fill)."""

from typing import NamedTuple

import numpy as np

from equifactor.base.typing import BoolArray, FloatArray, IntArray
from equifactor.kernels.jit import inlined, kernel
from equifactor.kernels.randomness import random_unit
from equifactor.solvers.elimination.greedy import (
    SPREAD,
    TryLimits,
    TryOutcome,
    begin,
    give_up,
    longer,
    next_variable,
    price_heap,
    set_price,
)

# Weight of the cluster's size in bits in the price: it decides between variables of equal fill, and clusters of up to
# 10,000 bits never outweigh an edge of fill.
_TIE = 1e-4


class FillGraph(NamedTuple):
    """The graph that joins variables sharing a factor, without loops or repeats."""

    ptr: IntArray  # [V+1] pointer to the neighbours of each variable
    adj: IntArray  # neighbours
    bits: FloatArray  # [V] log2 of the states of each variable
    weight: FloatArray  # [V] weight of a variable in pairs


class _Lists(NamedTuple):
    """Neighbours of the variables that are left: those of i are adj[start[i]:start[i]+degree[i]], with room for more.

    The array `adj` itself grows, and is passed beside this record.
    """

    start: IntArray  # [V]
    degree: IntArray  # [V]
    room: IntArray  # [V]


class _Sums(NamedTuple):
    """The parts of the price of a variable, kept up to date edge by edge."""

    fill: FloatArray  # [V] weight of the pairs of neighbours that are not joined by an edge
    around: FloatArray  # [V] weight of the neighbours
    size: FloatArray  # [V] bits of the neighbours


class _Marks(NamedTuple):
    """Scratch: which variables the present walk has met, and which have a new price."""

    seen: IntArray  # [V] number of the last walk that met the variable
    dirty: BoolArray  # [V] variables in `touched`
    touched: IntArray  # [V] variables with a new price


@kernel
def by_fill(graph, noise, limits, outcome, rng):
    """Repeatedly eliminate the variable whose neighbours lack the fewest edges among them, weighted by `weight`.

    Args:
        graph: a `FillGraph`, as a plain tuple like the other records; see `elimination_kernels.py`.
        noise: prices are multiplied by random numbers from 1 to 1 + noise.
        limits: a `TryLimits`.
        outcome: a `TryOutcome`, filled in.
        rng: [1] state of the random numbers, advanced.

    Returns:
        the number of list operations.
    """
    graph, limits, outcome = FillGraph(*graph), TryLimits(*limits), TryOutcome(*outcome)
    bits, weight = graph.bits, graph.weight
    num_vars = len(bits)
    lists, adj, end = _new_lists(graph.ptr, graph.adj)
    sums = _first_sums(lists, adj, bits, weight)
    fill, size = sums.fill, sums.size
    marks = _Marks(np.full(num_vars, -1, np.int64), np.zeros(num_vars, np.bool_), np.empty(num_vars, np.int64))
    dirty, touched = marks.dirty, marks.touched
    price = np.empty(num_vars)
    for i in range(num_vars):
        price[i] = _price(noise, fill[i], size[i] + bits[i], rng)
    key, heap, where = price_heap(price)
    begin(outcome)
    left, alive, work, stamp = num_vars, len(outcome.entries), 0.0, 0
    while alive > 0:
        v, left = next_variable(key, heap, where, left, work, limits, outcome)
        if v < 0:
            break
        if give_up(v, size[v], bits[v], limits, outcome):
            alive -= 1
            continue
        stamp += 1
        count, cost = _leave(v, stamp, lists, adj, sums, marks, bits, weight)
        work += cost
        if fill[v] > 0.0:
            adj, end, stamp, count, cost = _join(v, stamp, count, lists, adj, end, sums, marks, bits, weight)
            work += cost
        work += 8 * count + 16
        for n in range(count):
            u = touched[n]
            dirty[u] = False
            set_price(u, _price(noise, fill[u], size[u] + bits[u], rng), key, heap, where, left)
    return work


@kernel
def _new_lists(ptr, neighbours):
    """Return lists with room to grow, and where the free part of their array begins."""
    num_vars = len(ptr) - 1
    start, degree, room = np.empty(num_vars, np.int64), np.empty(num_vars, np.int64), np.empty(num_vars, np.int64)
    end = 0
    for i in range(num_vars):
        start[i] = end
        degree[i] = ptr[i + 1] - ptr[i]
        room[i] = 2 * degree[i] + 4
        end += room[i]
    adj = np.empty(2 * end + 64, np.int64)
    for i in range(num_vars):
        for r in range(degree[i]):
            adj[start[i] + r] = neighbours[ptr[i] + r]
    return _Lists(start, degree, room), adj, end


@kernel
def _first_sums(lists, adj, bits, weight):
    """Return the open pairs, and weight and bits of the neighbours, of every variable at the beginning.

    Every triangle is met once, at its member of lowest degree, so that the list of a variable with many neighbours is
    not walked for each of them.
    """
    start, degree = lists.start, lists.degree
    num_vars = len(degree)
    around, size, fill = np.zeros(num_vars), np.zeros(num_vars), np.zeros(num_vars)
    for i in range(num_vars):
        square = 0.0
        for r in range(start[i], start[i] + degree[i]):
            around[i] += weight[adj[r]]
            square += weight[adj[r]] ** 2
            size[i] += bits[adj[r]]
        fill[i] = (around[i] ** 2 - square) / 2
    later, seen = np.empty(num_vars, np.int64), np.full(num_vars, -1, np.int64)
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
    return _Sums(fill, around, size)


@kernel
def _leave(v, stamp, lists, adj, sums, marks, bits, weight):
    """Remove v from the lists of its neighbours, which lose the open pairs they had with it.

    Returns the number of variables with a new price, and the cost.
    """
    start, degree = lists.start, lists.degree
    fill, around, size = sums.fill, sums.around, sums.size
    seen, dirty, touched = marks.seen, marks.dirty, marks.touched
    first, last = start[v], start[v] + degree[v]
    cost = 0.0
    for r in range(first, last):
        seen[adj[r]] = stamp
    for r in range(first, last):
        u = adj[r]
        known = 0.0
        at = -1
        for s in range(start[u], start[u] + degree[u]):
            x = adj[s]
            if x == v:
                at = s
            elif seen[x] == stamp:
                known += weight[x]
        cost += degree[u]
        degree[u] -= 1
        adj[at] = adj[start[u] + degree[u]]
        around[u] -= weight[v]
        size[u] -= bits[v]
        fill[u] -= weight[v] * (around[u] - known)
        dirty[u] = True
        touched[r - first] = u
    return last - first, cost


@kernel
def _join(v, stamp, count, lists, adj, end, sums, marks, bits, weight):
    """Make the neighbours of v a clique.

    A new edge (a, b) removes its weight from the fill of every common neighbour. It adds to a the pairs of b with the
    neighbours of a that are not joined to b, and to b likewise. Returns the array of lists and its free part, the last
    stamp, the number of variables with a new price, and the cost.
    """
    start, degree, room = lists.start, lists.degree, lists.room
    fill, around, size = sums.fill, sums.around, sums.size
    seen, dirty, touched = marks.seen, marks.dirty, marks.touched
    first, last = start[v], start[v] + degree[v]
    cost = 0.0
    for r in range(first, last):
        a = adj[r]
        stamp += 1
        for s in range(start[a], start[a] + degree[a]):
            seen[adj[s]] = stamp
        seen[a] = stamp
        cost += degree[a]
        for q in range(r + 1, last):
            b = adj[q]
            if seen[b] == stamp:
                continue
            if degree[a] == room[a] or degree[b] == room[b]:
                adj, end = _with_room(a, b, start, degree, room, adj, end)
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
            cost += degree[b]
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
    return adj, end, stamp, count, cost


@kernel
def _with_room(a, b, start, degree, room, adj, end):
    """Move those of two lists that are full to the free part, with twice the room; replace the array if it is full."""
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
    return adj, end


@inlined
def _price(noise, fill, size, rng):
    r = random_unit(rng)
    return fill * (1.0 + noise * r) + _TIE * size + SPREAD * r
