# mypy: ignore-errors
"""One try of an elimination order by least growth of the tables."""

import math

import numpy as np

from equifactor.numerics.jit import kernel
from equifactor.solvers.elimination.greedy import MOST_BITS, SPREAD, longer, pay, settle


@kernel
def by_growth(
    scope_ptr, scope_vars, var_ptr, var_factors, bits, balance, noise, label, most_entries, most_kept,
    most_message, most_work, entries, kept, largest, place, seed,
):  # fmt: skip
    """Always the variable whose message has the fewest entries beyond `balance` times those of the tables it replaces.

    A table that is already large is then carried on and shrunk before another one is begun: a grid is swept from side
    to side, where fill would cut it into regions that grow and meet (20 x 20: largest table 2^21 instead of 2^27).
    `noise` is the scale of a Gumbel number added to the log2 of the price.
    """
    np.random.seed(seed)  # noqa: NPY002 - Numba's own generator, not that of numpy
    num_vars = len(bits)
    num_factors = len(scope_ptr) - 1
    # Tables: factors first, then one message per eliminated variable. Scopes and owners are lists in arenas.
    first = np.empty(num_factors + num_vars, np.int64)
    last = np.empty(num_factors + num_vars, np.int64)
    table_bits = np.zeros(num_factors + num_vars)
    gone = np.zeros(num_factors + num_vars, np.bool_)
    end = len(scope_vars)
    scopes = longer(scope_vars, end, 2 * end + 64)
    for t in range(num_factors):
        first[t], last[t] = scope_ptr[t], scope_ptr[t + 1]
        for e in range(first[t], last[t]):
            table_bits[t] += bits[scope_vars[e]]
    start = np.empty(num_vars, np.int64)
    count = np.empty(num_vars, np.int64)
    tables_end = 0
    for i in range(num_vars):
        start[i] = tables_end
        count[i] = var_ptr[i + 1] - var_ptr[i]
        tables_end += count[i]
    tables = np.empty(tables_end, np.int64)
    for i in range(num_vars):
        for r in range(count[i]):
            tables[start[i] + r] = var_factors[var_ptr[i] + r]

    seen = np.full(num_vars, -1, np.int64)
    stamp = -1
    key = np.empty(num_vars)
    heap = np.arange(num_vars)
    where = np.arange(num_vars)
    work = 0.0
    for i in range(num_vars):
        stamp += 1
        key[i], cost = _growth_price(
            i, start, count, tables, first, last, scopes, table_bits, bits, seen, stamp, balance, noise
        )
        work += cost
    for n in range(num_vars // 2 - 1, -1, -1):
        settle(heap, where, key, n, num_vars)
    entries[:] = 0.0
    kept[:] = 0.0
    largest[:] = 0.0
    alive = len(entries)
    left = num_vars
    new = num_factors
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
        need = 0
        for r in range(start[v], start[v] + count[v]):
            need += last[tables[r]] - first[tables[r]]
        if end + need > len(scopes):
            scopes = longer(scopes, end, 2 * (end + need))
        stamp += 1
        seen[v] = stamp
        first[new] = end
        total = 0.0
        for r in range(start[v], start[v] + count[v]):
            t = tables[r]
            gone[t] = True
            for e in range(first[t], last[t]):
                u = scopes[e]
                if seen[u] != stamp:
                    seen[u] = stamp
                    scopes[end] = u
                    end += 1
                    total += bits[u]
        last[new] = end
        table_bits[new] = total
        work += need
        if pay(c, total + bits[v], bits[v], most_entries, most_kept, most_message, entries, kept, largest):
            alive -= 1
            continue
        for e in range(first[new], last[new]):
            u = scopes[e]
            alive_end = start[u]
            for r in range(start[u], start[u] + count[u]):
                if not gone[tables[r]]:
                    tables[alive_end] = tables[r]
                    alive_end += 1
            work += count[u]
            count[u] = alive_end - start[u]
            tables[start[u] + count[u]] = new  # there is room: a table that held v is gone
            count[u] += 1
        for e in range(first[new], last[new]):
            u = scopes[e]
            stamp += 1
            key[u], cost = _growth_price(
                u, start, count, tables, first, last, scopes, table_bits, bits, seen, stamp, balance, noise
            )
            work += cost
            settle(heap, where, key, where[u], left)
        new += 1
    return work


@kernel
def _growth_price(i, start, count, tables, first, last, scopes, table_bits, bits, seen, stamp, balance, noise):
    """Price of variable i, and what it cost to find out."""
    seen[i] = stamp
    message_bits = 0.0
    replaced = 0.0
    cost = 16
    for r in range(start[i], start[i] + count[i]):
        t = tables[r]
        replaced += 2.0 ** min(table_bits[t], MOST_BITS)
        for e in range(first[t], last[t]):
            if seen[scopes[e]] != stamp:
                seen[scopes[e]] = stamp
                message_bits += bits[scopes[e]]
        cost += last[t] - first[t]
    growth = 2.0 ** min(message_bits, MOST_BITS) - balance * replaced
    price = math.log2(1.0 + abs(growth))
    r = 1.0 - np.random.random()  # noqa: NPY002 - all that Numba has; in (0, 1]
    if noise > 0.0:
        price += noise * math.log(1e-9 - math.log(r)) * (1.0 if growth >= 0.0 else -1.0)
    return (price if growth >= 0.0 else -price) + SPREAD * r, cost
