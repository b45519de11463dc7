# mypy: ignore-errors
"""Elimination within a bound: a variable whose table would be too large is split into clones.

Factors and messages are tables with scopes. Eliminating a variable replaces its tables by one over the union of their
scopes. If the union is above the bound, a clone takes as many of the tables as fit, and leaves the others to the next
clone of the same variable. The turn of that clone may come much later, when its tables have shrunk. With a bound below
every factor each clone has one factor, which is belief propagation; with a bound of the width nothing is split.

Scopes are stored in nodes, one per table and variable; the nodes of a variable form a doubly linked list.
"""

import math
from typing import NamedTuple

import numpy as np

from equifactor.base.typing import FloatArray, IntArray
from equifactor.kernels.heaps import settle
from equifactor.kernels.jit import inlined, kernel
from equifactor.kernels.randomness import random_unit
from equifactor.solvers.elimination.greedy import SPREAD, longer, price_heap, set_price
from equifactor.solvers.elimination.orders import BITS_ROUNDING, MOST_BITS

_BARRIER = 1e6  # Added to the price of splitting, so that it is above that of any elimination that fits.


class ScopeNodes(NamedTuple):
    """One node per table and variable of its scope; the nodes of a table are consecutive."""

    var: IntArray  # variable of each node
    table: IntArray  # table of each node
    after: IntArray  # next node of the same variable, -1 at the end
    before: IntArray  # node before it, -1 at the start
    heir: IntArray  # the node that replaces it in a message; -2 - c if clone c was eliminated


class _TableScopes(NamedTuple):
    """Factors first, then messages; the nodes of table t are first[t]:last[t]."""

    first: IntArray
    last: IntArray
    bits: FloatArray  # log2 of the entries
    chosen: IntArray  # stamp of the region that took it
    head: IntArray  # [V] first node of each variable


class _Stamps(NamedTuple):
    """Marks of the variables that have been met since a stamp was made."""

    seen: IntArray  # [V]
    spot: IntArray  # [V] node of the variable in the newest message


@kernel
def split_graph(scope_ptr, scope_vars, bits, worth, bound, balance, noise, rng):
    """Eliminate all variables within the bound, and split those that do not fit.

    The cheapest elimination is always next: the smallest table while one fits, otherwise the clone that loses least.
    The loss is the worth of its variable times the number of regions that its tables would fill.

    Args:
        scope_ptr: [F+1] pointer to the variables of each factor.
        scope_vars: [E] variables, factor by factor.
        bits: [V] log2 of the states of each variable.
        worth: [V] the price of splitting each variable.
        bound: log2 of the entries of the largest table; factors above it stay whole.
        balance: the weight of the entries of the tables that a message replaces; below zero the size alone counts.
        noise: the largest relative change of a price by random numbers.
        rng: [1] state of the random numbers, which is advanced.

    Returns:
        clone_of_edge [E], and the variable of each clone, in the order of elimination.
    """
    num_vars, num_factors, num_edges = len(bits), len(scope_ptr) - 1, len(scope_vars)
    nodes, tables = _begin(scope_ptr, scope_vars, bits)
    end, new = num_edges, num_factors
    stamps = _Stamps(np.full(num_vars, -1, np.int64), np.zeros(num_vars, np.int64))
    price = np.empty(num_vars)
    for i in range(num_vars):
        price[i] = _price(i, i, nodes, tables, stamps.seen, bits, worth, bound, balance, noise, rng)
    key, heap, where = price_heap(price)
    var_of_clone = np.empty(num_vars + num_edges, np.int64)
    clones, left, stamp = 0, num_vars, num_vars
    while left > 0:
        v = heap[0]
        stamp += 1
        need = _choose_region(v, stamp, nodes, tables, stamps.seen, bits, bound, key[v] > -_BARRIER)
        if end + need > len(nodes.var):
            nodes = _more_nodes(nodes, end, 2 * (end + need))
        stamp += 1
        end = _merge_region(v, clones, new, end, stamp, nodes, tables, stamps, bits)
        var_of_clone[clones] = v
        clones += 1
        for r in range(tables.first[new], tables.last[new]):
            u = nodes.var[r]
            stamp += 1
            fresh = _price(u, stamp, nodes, tables, stamps.seen, bits, worth, bound, balance, noise, rng)
            set_price(u, fresh, key, heap, where, left)
        new += 1
        if tables.head[v] >= 0:
            stamp += 1
            fresh = _price(v, stamp, nodes, tables, stamps.seen, bits, worth, bound, balance, noise, rng)
            set_price(v, fresh, key, heap, where, left)
        else:
            left -= 1
            at = where[v]
            heap[at] = heap[left]
            where[heap[at]] = at
            if at < left:
                settle(heap, where, key, at, left)
    for r in range(end - 1, -1, -1):  # An heir comes after the nodes that it replaces.
        nodes.heir[r] = -2 - nodes.heir[r] if nodes.heir[r] < 0 else nodes.heir[nodes.heir[r]]
    return nodes.heir[:num_edges].copy(), var_of_clone[:clones].copy()


@kernel
def _begin(scope_ptr, scope_vars, bits):
    """Return the factors as tables, with space for messages."""
    num_vars, num_factors, num_edges = len(bits), len(scope_ptr) - 1, len(scope_vars)
    room, most = 2 * num_edges + 64, num_factors + num_vars + num_edges
    nodes = ScopeNodes(
        longer(scope_vars, num_edges, room), np.empty(room, np.int64), np.empty(room, np.int64),
        np.empty(room, np.int64), np.full(room, -1, np.int64),
    )  # fmt: skip
    tables = _TableScopes(
        np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most), np.full(most, -1, np.int64),
        np.full(num_vars, -1, np.int64),
    )  # fmt: skip
    for t in range(num_factors):
        tables.first[t], tables.last[t] = scope_ptr[t], scope_ptr[t + 1]
        for r in range(scope_ptr[t], scope_ptr[t + 1]):
            tables.bits[t] += bits[nodes.var[r]]
            nodes.table[r] = t
            _enter(r, nodes, tables.head)
    return nodes, tables


@inlined
def _enter(r, nodes, head):
    """Put node r into the list of its variable."""
    v = nodes.var[r]
    nodes.before[r] = -1
    nodes.after[r] = head[v]
    if head[v] >= 0:
        nodes.before[head[v]] = r
    head[v] = r


@inlined
def _leave(r, nodes, head):
    """Take node r out of the list of its variable."""
    before, after = nodes.before[r], nodes.after[r]
    if before >= 0:
        nodes.after[before] = after
    else:
        head[nodes.var[r]] = after
    if after >= 0:
        nodes.before[after] = before


@kernel
def _more_nodes(nodes, end, room):
    return ScopeNodes(
        longer(nodes.var, end, room), longer(nodes.table, end, room), longer(nodes.after, end, room),
        longer(nodes.before, end, room), longer(nodes.heir, end, room),
    )  # fmt: skip


@kernel
def _price(u, stamp, nodes, tables, seen, bits, worth, bound, balance, noise, rng):
    """Return the price of eliminating u: the bits of its table or, if that does not fit, the barrier plus the loss."""
    total, count, replaced = bits[u], 0, 0.0
    seen[u] = stamp
    r = tables.head[u]
    while r >= 0:
        t = nodes.table[r]
        count += 1
        replaced += 2.0 ** min(tables.bits[t], MOST_BITS)
        for e in range(tables.first[t], tables.last[t]):
            w = nodes.var[e]
            if seen[w] != stamp:
                seen[w] = stamp
                total += bits[w]
        r = nodes.after[r]
    factor = 1.0 + max(noise, SPREAD) * random_unit(rng)
    if count <= 1 or total <= bound + BITS_ROUNDING:
        if balance < 0.0:
            return total * factor
        growth = 2.0 ** min(total - bits[u], MOST_BITS) - balance * replaced
        size = math.log2(1.0 + abs(growth)) * factor
        return size if growth >= 0.0 else -size
    return _BARRIER + worth[u] * (total - bits[u]) / max(bound - bits[u], 1.0) * factor


@kernel
def _choose_region(v, stamp, nodes, tables, seen, bits, bound, whole):
    """Mark the tables that the next clone of v takes: all, or the largest one and then those that add least.

    Returns the number of nodes that their message may need.
    """
    need = 0
    if whole:
        r = tables.head[v]
        while r >= 0:
            t = nodes.table[r]
            tables.chosen[t] = stamp
            need += tables.last[t] - tables.first[t]
            r = nodes.after[r]
        return need
    best = -1
    r = tables.head[v]
    while r >= 0:
        if best < 0 or tables.bits[nodes.table[r]] > tables.bits[best]:
            best = nodes.table[r]
        r = nodes.after[r]
    total = 0.0
    while best >= 0:
        tables.chosen[best] = stamp
        need += tables.last[best] - tables.first[best]
        for e in range(tables.first[best], tables.last[best]):
            w = nodes.var[e]
            if seen[w] != stamp:
                seen[w] = stamp
                total += bits[w]
        best = -1
        least = 0.0
        r = tables.head[v]
        while r >= 0:
            t = nodes.table[r]
            r = nodes.after[r]
            if tables.chosen[t] == stamp:
                continue
            added = 0.0
            for e in range(tables.first[t], tables.last[t]):
                if seen[nodes.var[e]] != stamp:
                    added += bits[nodes.var[e]]
            fits = total + added <= bound + BITS_ROUNDING or added == 0.0
            rank = added - 1e-3 * tables.bits[t]  # Of two tables that add the same, the larger one shares more.
            if fits and (best < 0 or rank < least):
                best, least = t, rank
    return need


@kernel
def _merge_region(v, clone, new, end, stamp, nodes, tables, stamps, bits):
    """Replace the tables of a region, marked with the previous stamp, by message `new`; return where its nodes end."""
    seen, spot = stamps.seen, stamps.spot
    first = end
    seen[v] = stamp
    at = tables.head[v]
    while at >= 0:
        t = nodes.table[at]
        at = nodes.after[at]
        if tables.chosen[t] != stamp - 1:
            continue
        for r in range(tables.first[t], tables.last[t]):
            _leave(r, nodes, tables.head)
            u = nodes.var[r]
            if u == v:
                nodes.heir[r] = -2 - clone
                continue
            if seen[u] != stamp:
                seen[u] = stamp
                spot[u] = end
                nodes.var[end] = u
                nodes.table[end] = new
                nodes.heir[end] = -1
                tables.bits[new] += bits[u]
                end += 1
            nodes.heir[r] = spot[u]
    tables.first[new], tables.last[new] = first, end
    for r in range(first, end):
        _enter(r, nodes, tables.head)
    return end
