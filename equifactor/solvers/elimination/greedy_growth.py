# mypy: ignore-errors
"""One try of an elimination order by least growth of the tables."""

import math
from typing import NamedTuple

import numpy as np

from equifactor.base.typing import BoolArray, FloatArray, IntArray
from equifactor.kernels.jit import inlined, kernel
from equifactor.kernels.randomness import random_unit
from equifactor.solvers.elimination.greedy import (
    MOST_BITS,
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


class GrowthGraph(NamedTuple):
    """Factors and their variables, in both directions."""

    scope_ptr: IntArray  # [F+1] pointer to the variables of each factor
    scope_vars: IntArray  # [E] variables, factor by factor
    var_ptr: IntArray  # [V+1] pointer to the factors of each variable
    var_factors: IntArray  # [E] factors, variable by variable
    bits: FloatArray  # [V] log2 of the states of each variable


class _TablesLeft(NamedTuple):
    """Factors first, then one message per eliminated variable; the scope of table t is scopes[first[t]:last[t]].

    The array `scopes` itself grows, and is passed beside this record.
    """

    first: IntArray  # [F+V]
    last: IntArray  # [F+V]
    bits: FloatArray  # [F+V] log2 of the entries
    gone: BoolArray  # [F+V] tables that have been multiplied into a message


class _Owners(NamedTuple):
    """The tables of each variable: those of i are tables[start[i]:start[i]+count[i]]."""

    start: IntArray  # [V]
    count: IntArray  # [V]
    tables: IntArray


@kernel
def by_growth(graph, balance, noise, limits, outcome, rng):
    """Repeatedly eliminate the variable whose message has the fewest entries beyond `balance` times those it replaces.

    A table that is already large is then extended and shrunk before another one is begun. A grid is swept from side to
    side, where fill would cut it into regions that grow and meet (20 x 20: largest table 2^21 instead of 2^27).

    Args:
        graph: a `GrowthGraph`, as a plain tuple like the other records; see `elimination_kernels.py`.
        balance: weight of an entry of the tables that a message replaces.
        noise: scale of a Gumbel number added to the log2 of the price.
        limits: a `TryLimits`.
        outcome: a `TryOutcome`, filled in.
        rng: [1] state of the random numbers, advanced.

    Returns:
        the number of list operations.
    """
    graph, limits, outcome = GrowthGraph(*graph), TryLimits(*limits), TryOutcome(*outcome)
    bits = graph.bits
    num_vars = len(bits)
    tables, scopes, end = _factor_tables(graph.scope_ptr, graph.scope_vars, bits)
    owners = _first_owners(graph.var_ptr, graph.var_factors)
    seen = np.full(num_vars, -1, np.int64)
    price, work = np.empty(num_vars), 0.0
    for i in range(num_vars):
        price[i], cost = _price(i, i, tables, scopes, owners, bits, seen, balance, noise, rng)
        work += cost
    key, heap, where = price_heap(price)
    begin(outcome)
    left, alive, stamp, new = num_vars, len(outcome.entries), num_vars, len(graph.scope_ptr) - 1
    while alive > 0:
        v, left = next_variable(key, heap, where, left, work, limits, outcome)
        if v < 0:
            break
        stamp += 1
        scopes, end, message_bits, cost = _merge(v, new, stamp, tables, scopes, end, owners, bits, seen)
        work += cost
        if give_up(v, message_bits, bits[v], limits, outcome):
            alive -= 1
            continue
        first = tables.first[new]
        work += _hand_over(new, scopes[first:end], tables.gone, owners)
        for e in range(first, end):
            u = scopes[e]
            stamp += 1
            new_price, cost = _price(u, stamp, tables, scopes, owners, bits, seen, balance, noise, rng)
            work += cost
            set_price(u, new_price, key, heap, where, left)
        new += 1
    return work


@kernel
def _factor_tables(scope_ptr, scope_vars, bits):
    """Return the factors as tables with space for the messages, their scopes, and where space for new scopes begins."""
    num_factors, end = len(scope_ptr) - 1, len(scope_vars)
    num_tables = num_factors + len(bits)
    first, last = np.empty(num_tables, np.int64), np.empty(num_tables, np.int64)
    table_bits = np.zeros(num_tables)
    for t in range(num_factors):
        first[t], last[t] = scope_ptr[t], scope_ptr[t + 1]
        for e in range(first[t], last[t]):
            table_bits[t] += bits[scope_vars[e]]
    return (
        _TablesLeft(first, last, table_bits, np.zeros(num_tables, np.bool_)),
        longer(scope_vars, end, 2 * end + 64),
        end,
    )


@kernel
def _first_owners(var_ptr, var_factors):
    """Return the factors of each variable. Loops, because `np.diff` takes 1.5 s to compile."""
    num_vars = len(var_ptr) - 1
    start, count = np.empty(num_vars, np.int64), np.empty(num_vars, np.int64)
    for i in range(num_vars):
        start[i], count[i] = var_ptr[i], var_ptr[i + 1] - var_ptr[i]
    return _Owners(start, count, longer(var_factors, len(var_factors), len(var_factors)))


@kernel
def _merge(v, new, stamp, tables, scopes, end, owners, bits, seen):
    """Make the message `new` of v from all its tables, which are marked as gone.

    Returns the array of scopes and its free part, the bits of the message, and the cost.
    """
    first, last, gone = tables.first, tables.last, tables.gone
    start, count, of_var = owners.start, owners.count, owners.tables
    need = 0
    for r in range(start[v], start[v] + count[v]):
        need += last[of_var[r]] - first[of_var[r]]
    if end + need > len(scopes):
        scopes = longer(scopes, end, 2 * (end + need))
    seen[v] = stamp
    first[new] = end
    total = 0.0
    for r in range(start[v], start[v] + count[v]):
        t = of_var[r]
        gone[t] = True
        for e in range(first[t], last[t]):
            u = scopes[e]
            if seen[u] != stamp:
                seen[u] = stamp
                scopes[end] = u
                end += 1
                total += bits[u]
    last[new] = end
    tables.bits[new] = total
    return scopes, end, total, need


@kernel
def _hand_over(new, scope, gone, owners):
    """Replace the tables that are gone by the message `new` in the lists of its variables; return the cost."""
    start, count, of_var = owners.start, owners.count, owners.tables
    cost = 0
    for e in range(len(scope)):
        u = scope[e]
        end = start[u]
        for r in range(start[u], start[u] + count[u]):
            if not gone[of_var[r]]:
                of_var[end] = of_var[r]
                end += 1
        cost += count[u]
        of_var[end] = new  # there is room, because a table that held the eliminated variable is gone
        count[u] = end - start[u] + 1
    return cost


@inlined
def _price(i, stamp, tables, scopes, owners, bits, seen, balance, noise, rng):
    """Return the price of variable i, and the cost of computing it."""
    first, last, table_bits = tables.first, tables.last, tables.bits
    begin, of_var = owners.start[i], owners.tables
    seen[i] = stamp
    message_bits = 0.0
    replaced = 0.0
    cost = 16
    for r in range(begin, begin + owners.count[i]):
        t = of_var[r]
        replaced += 2.0 ** min(table_bits[t], MOST_BITS)
        for e in range(first[t], last[t]):
            if seen[scopes[e]] != stamp:
                seen[scopes[e]] = stamp
                message_bits += bits[scopes[e]]
        cost += last[t] - first[t]
    growth = 2.0 ** min(message_bits, MOST_BITS) - balance * replaced
    price = math.log2(1.0 + abs(growth))
    r = 1.0 - random_unit(rng)  # in (0, 1]
    if noise > 0.0:
        price += noise * math.log(1e-9 - math.log(r)) * (1.0 if growth >= 0.0 else -1.0)
    return (price if growth >= 0.0 else -price) + SPREAD * r, cost
