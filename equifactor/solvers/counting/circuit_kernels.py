# mypy: ignore-errors
"""Kernels on circuits: sums from the leaves to the root, and shares of the root from there to the leaves.

A node lies in `arena[node_ptr[k]:node_ptr[k + 1]]`: the number of items of its first and its second branch, -1 for a
branch whose sum is 0, and the items. Items are leaves, or `-1 - node` for a node. Children come before their parents.
"""

import numpy as np

from equifactor.kernels.jit import kernel


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
