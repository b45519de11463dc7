# mypy: ignore-errors
"""Kernels on circuits: sums from the leaves to the root, and shares of the root from there to the leaves.

A node lies in `arena[node_ptr[k]:node_ptr[k + 1]]`: the number of items of its first and its second branch, -1 for a
branch whose sum is 0, and the items. Items are leaves, or `-1 - node` for a node. Children come before their parents.
"""

import numpy as np

from equifactor.kernels.fastmath import get
from equifactor.kernels.jit import fast_kernel, inlined, kernel
from equifactor.kernels.vectors import vector_operations

LANES = 16  # Rows of evidence that are computed side by side.
SMALLEST = 1e-280  # A smaller ratio of sums may have lost digits.
_OPS = vector_operations("float64", LANES)
load, store, filled, add, multiply = _OPS.load, _OPS.store, _OPS.filled, _OPS.add, _OPS.multiply


@kernel
def sum_up(node_ptr, arena, leaf, branch):
    """Set the log sums [nodes, 2] of the branches, from the log weights `leaf` of the leaves; return the root's sum."""
    total = 0.0
    for k in range(len(branch)):
        at = node_ptr[k] + 2
        for b in range(2):
            size = arena[node_ptr[k] + b]
            product = 0.0 if size >= 0 else -np.inf
            for _ in range(size):
                x = arena[at]
                at += 1
                if x >= 0:
                    product += leaf[x]
                else:
                    low, high = min(branch[-1 - x, 0], branch[-1 - x, 1]), max(branch[-1 - x, 0], branch[-1 - x, 1])
                    product += high if low == -np.inf else high + np.log1p(np.exp(low - high))
            branch[k, b] = product
        low, high = min(branch[k, 0], branch[k, 1]), max(branch[k, 0], branch[k, 1])
        total = high if low == -np.inf else high + np.log1p(np.exp(low - high))
    return total


@kernel
def spread_down(node_ptr, arena, branch, share, p):
    """Add to `p` [leaves] the share of the root's sum that goes through each leaf; `share` [nodes] is 0 at first."""
    share[len(branch) - 1] = 1.0
    for k in range(len(branch) - 1, -1, -1):
        if share[k] == 0.0:
            continue
        low, high = min(branch[k, 0], branch[k, 1]), max(branch[k, 0], branch[k, 1])
        at = node_ptr[k] + 2
        for b in range(2):
            size = arena[node_ptr[k] + b]
            own = 0.0
            if branch[k, b] > -np.inf:
                own = share[k] / (1.0 + np.exp(low - high)) * (1.0 if branch[k, b] == high else np.exp(low - high))
            for _ in range(size):
                x = arena[at]
                at += 1
                if x >= 0:
                    p[x] += own
                else:
                    share[-1 - x] += own


@fast_kernel
def ask_lanes(rows, states, upward, downward, root, asked, values, shares, log_z, p):
    """Set ln of the ratio [N] of the sum given each row of evidence to the sum without, and shares [N, asked] in it.

    Args:
        rows: [N, V] states, -1 where free.
        states: the first state of each variable [V + 1], and the leaf [X] of each state: -1 impossible, -2 certain.
        upward: the fields of `CircuitProgram.upward`.
        downward: the sums from the root to the leaves that are asked.
        root: the place of the root.
        asked: [columns] leaves whose shares are wanted, or -1 and -2 as above.
        values: [num_values LANES] room.
        shares: [num_values LANES] room.
        log_z: [N] set here; -inf for a sum that is zero, or too small for a number.
        p: [N, columns] set here; rows without a sum are zero.
    """
    first_state, leaf = states
    first_sum = len(values) // LANES - len(upward[0])
    factor = np.empty(LANES)
    for first in range(0, len(rows), LANES):
        count = min(LANES, len(rows) - first)
        for k in range(first_sum):
            store(values, k * LANES, filled(1.0))
        factor[:] = 1.0
        for k in range(count):
            for i in range(rows.shape[1]):
                seen = rows[first + k, i]
                if seen >= 0:
                    begin = first_state[i]
                    if leaf[begin + seen] == -1:
                        factor[k] = 0.0
                    for x in range(begin, first_state[i + 1]):
                        if x != begin + seen and leaf[x] >= 0:
                            values[leaf[x] * LANES + k] = 0.0
        _add_terms(upward, values, values, values)
        for k in range(count):
            total = factor[k] * values[root * LANES + k]
            log_z[first + k] = np.log(total) if total > 0.0 else -np.inf
            factor[k] = 1.0 / total if total > SMALLEST else 0.0
        if p.shape[1] == 0:
            continue
        store(shares, root * LANES, load(factor, 0))
        _add_terms(downward, shares, values, shares)
        for c in range(len(asked)):
            x = asked[c] * LANES
            for k in range(count):
                if x >= 0:
                    p[first + k, c] = values[x + k] * shares[x + k]
                else:
                    p[first + k, c] = 1.0 if asked[c] == -2 and factor[k] > 0.0 else 0.0


@fast_kernel
def _add_terms(sums, x, y, out):
    """Set the places of `out` to sums of coefficients times values of `x` times values of `y`, one after the other."""
    places, coefficients, factors, run_terms, run_end = sums
    begin, u = 0, 0
    for r in range(len(run_end)):
        size = run_terms[r]
        if size == 1:
            for n in range(begin, run_end[r]):
                store(out, LANES * np.int64(get(places, n)), _term(coefficients, factors, u, x, y))
                u += 1
        elif size == 2:
            for n in range(begin, run_end[r]):
                total = add(_term(coefficients, factors, u, x, y), _term(coefficients, factors, u + 1, x, y))
                store(out, LANES * np.int64(get(places, n)), total)
                u += 2
        else:
            for n in range(begin, run_end[r]):
                total = _term(coefficients, factors, u, x, y)
                for q in range(u + 1, u + size):
                    total = add(total, _term(coefficients, factors, q, x, y))
                store(out, LANES * np.int64(get(places, n)), total)
                u += size
        begin = run_end[r]


@inlined
def _term(coefficients, factors, u, x, y):
    first = multiply(filled(get(coefficients, u)), load(x, LANES * np.int64(get(factors, 2 * u))))
    return multiply(first, load(y, LANES * np.int64(get(factors, 2 * u + 1))))


@kernel
def descend(node_ptr, arena, leaf, branch, chance, literals):
    """Set the literals [count, n] of assignments by a walk from the root, which takes one branch of every node.

    Args:
        node_ptr: where each node begins.
        arena: the nodes.
        leaf: [3n] the log weights of leaves.
        branch: [nodes, 2] the log sums, or log maxima, of branches.
        chance: [count, nodes + n] numbers between 0 and 1 that draw branches and free variables; without columns the
            larger branch is taken.
        literals: [count, n] set here.
    """
    n = literals.shape[1]
    stack = np.empty(len(branch) + 1, np.int64)
    drawn = chance.shape[1] > 0
    for row in range(len(literals)):
        stack[0] = len(branch) - 1
        top = 1
        while top:
            top -= 1
            k = stack[top]
            first, second = branch[k, 0], branch[k, 1]
            if drawn:
                b = 1 if second > -np.inf and chance[row, k] * (1.0 + np.exp(first - second)) < 1.0 else 0
            else:
                b = 1 if second > first else 0
            at = node_ptr[k] + 2 + (max(0, arena[node_ptr[k]]) if b else 0)
            for q in range(at, at + arena[node_ptr[k] + b]):
                x = arena[q]
                if x < 0:
                    stack[top] = -1 - x
                    top += 1
                elif x < 2 * n:
                    literals[row, x >> 1] = x
                else:
                    v = x - 2 * n
                    if drawn:
                        yes = chance[row, len(branch) + v] * (1.0 + np.exp(leaf[2 * v + 1] - leaf[2 * v])) < 1.0
                    else:
                        yes = leaf[2 * v] >= leaf[2 * v + 1]
                    literals[row, v] = 2 * v if yes else 2 * v + 1


@kernel
def best_up(node_ptr, arena, leaf, branch):
    """Set the log maxima [nodes, 2] of the branches, from the log weights `leaf` of the leaves; return the root's."""
    best = 0.0
    for k in range(len(branch)):
        at = node_ptr[k] + 2
        for b in range(2):
            size = arena[node_ptr[k] + b]
            product = 0.0 if size >= 0 else -np.inf
            for _ in range(size):
                x = arena[at]
                at += 1
                product += leaf[x] if x >= 0 else max(branch[-1 - x, 0], branch[-1 - x, 1])
            branch[k, b] = product
        best = max(branch[k, 0], branch[k, 1])
    return best
