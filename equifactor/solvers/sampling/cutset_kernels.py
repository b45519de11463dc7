# mypy: ignore-errors
"""Sums over all states of a cutset, each a sum over its block."""

import math

from equifactor.numerics.jit import fast_kernel
from equifactor.solvers.elimination.cluster_tables import normalise
from equifactor.solvers.elimination.elimination_kernels import distribute
from equifactor.solvers.elimination.program import Clusters, ClusterTables, Workspace
from equifactor.solvers.sampling.block_kernels import block_sum

NEG_INF = -math.inf
_ALL = 2**62  # No pass uses up this budget.


@fast_kernel
def sum_over_cutset(log_phi, x, steps, card, first, cut, slicing, groups, clusters, tables, work, p, sums, with_p):
    """Add the next `steps` states of the cutset to the sums; whether all have been visited.

    x [V] holds the next state; the last variable of `cut` moves fastest. card and first [V] are the number of states of
    each variable and the place of its first among all states. sums is [3 + X]: the log of what the sums are
    divided by, the sum of all weights, the number of states that were possible, and the weighted probabilities.
    """
    clusters_, tables_, work_ = Clusters(*clusters), ClusterTables(*tables), Workspace(*work)
    dim, state_start = clusters_.dim, clusters_.state_start
    done = False
    for _ in range(steps):
        w = block_sum(log_phi, x, slicing, groups, clusters, tables, work)
        if w > NEG_INF:
            if w > sums[0]:
                factor = math.exp(sums[0] - w) if sums[0] > NEG_INF else 0.0
                sums[0] = w
                sums[1] *= factor
                for s in range(3, len(sums)):
                    sums[s] *= factor
            weight = math.exp(w - sums[0])
            sums[1] += weight
            sums[2] += 1.0
            if with_p and weight > 1e-18:
                distribute(len(dim) - 1, 0, _ALL, clusters_, tables_, work_, p)
                normalise(state_start, dim, p)
                for n in range(len(dim)):
                    for s in range(state_start[n], state_start[n] + dim[n]):
                        sums[3 + s] += weight * p[s]
                for k in range(len(cut)):
                    sums[3 + first[cut[k]] + x[cut[k]]] += weight
        k = len(cut) - 1
        while k >= 0:
            x[cut[k]] += 1
            if x[cut[k]] < card[cut[k]]:
                break
            x[cut[k]] = 0
            k -= 1
        if k < 0:
            done = True
            break
    return done
