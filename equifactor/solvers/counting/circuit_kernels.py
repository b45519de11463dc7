# mypy: ignore-errors
"""Kernels on circuits: sums from the leaves to the root, and shares of the root from there to the leaves.

A node lies in `arena[node_ptr[k]:node_ptr[k + 1]]`: the number of items of its first and its second branch, -1 for a
branch whose sum is 0, and the items. Items are leaves, or `-1 - node` for a node. Children come before their parents.
"""

import numpy as np

from equifactor.kernels.jit import fast_kernel, kernel


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
def sum_up_lanes(node_ptr, arena, leaf, branch, total):
    """Set the sums [nodes, 2, lanes] of branches and [nodes, lanes] of nodes from the weights [leaves, lanes]."""
    lanes = leaf.shape[1]
    for k in range(len(total)):
        at = node_ptr[k] + 2
        for b in range(2):
            size = arena[node_ptr[k] + b]
            own = branch[k, b]
            own[:] = 1.0 if size >= 0 else 0.0
            for _ in range(size):
                x = arena[at]
                at += 1
                row = leaf[x] if x >= 0 else total[-1 - x]
                for r in range(lanes):
                    own[r] *= row[r]
        for r in range(lanes):
            total[k, r] = branch[k, 0, r] + branch[k, 1, r]


@fast_kernel
def spread_down_lanes(node_ptr, arena, branch, total, share, p):
    """Add to `p` [leaves, lanes] the share of the root's sums through each leaf; `share` [nodes, lanes] is 0 at first.

    A root of 0 has no shares.
    """
    lanes = share.shape[1]
    own = np.empty(lanes)
    for r in range(lanes):
        share[len(share) - 1, r] = 1.0
    for k in range(len(share) - 1, -1, -1):
        at = node_ptr[k] + 2
        for r in range(lanes):
            share[k, r] = share[k, r] / total[k, r] if total[k, r] > 0.0 else 0.0
        for b in range(2):
            size = arena[node_ptr[k] + b]
            for r in range(lanes):
                own[r] = share[k, r] * branch[k, b, r]
            for _ in range(size):
                x = arena[at]
                at += 1
                row = p[x] if x >= 0 else share[-1 - x]
                for r in range(lanes):
                    row[r] += own[r]


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
