# mypy: ignore-errors
"""Sampling a block of variables given all others: tables cut at the others' states, up, draws on the way back, down.

The arguments of a block are the records of `block_program.py` as plain tuples; see `elimination_kernels.py`.
"""

import math

from equifactor.kernels.jit import fast_kernel
from equifactor.kernels.randomness import random_unit
from equifactor.solvers.elimination.cluster_tables import fill_groups, normalise, scale_log
from equifactor.solvers.elimination.draw_kernels import draw_states
from equifactor.solvers.elimination.elimination_kernels import collect, distribute
from equifactor.solvers.elimination.program import Clusters, ClusterTables, FactorGroups, Workspace
from equifactor.solvers.sampling.block_program import Slicing
from equifactor.solvers.sampling.chain_move_kernels import jump

NEG_INF = -math.inf
_ALL = 2**62  # No pass uses up this budget.


@fast_kernel
def block_sum(log_phi, x, slicing, groups, clusters, tables, work):
    """Upward pass of a block given the states x [V] of the cutset; ln of the sum over all states of the block.

    log_phi [T] are the tables of the model.
    """
    return block_sum_from(0, 0, log_phi, x, slicing, groups, clusters, tables, work)


@fast_kernel
def block_sum_from(group, cluster, log_phi, x, slicing, groups, clusters, tables, work):
    """`block_sum` where tables before the given group and messages before the given cluster are still right.

    Where the sum is zero, scale[0] says why: -1 for a factor whose variables are all cut, 1 + g for group g, and 0 for
    a cluster, the first one whose scale[1 + n] is infinite.
    """
    slicing, groups_, clusters_ = Slicing(*slicing), FactorGroups(*groups), Clusters(*clusters)
    tables_, work_ = ClusterTables(*tables), Workspace(*work)
    begin, table_ptr, factor = slicing.begin, slicing.table_ptr, slicing.factor
    variable, stride, constants = slicing.variable, slicing.stride, slicing.constants
    group_scale = slicing.group_scale
    start, size, arena, is_log, low = tables_.start, tables_.size, tables_.arena, tables_.is_log, tables_.low
    scale, parent = tables_.scale, clusters_.parent
    num_vars = len(parent)
    num_groups = len(size) - num_vars
    scale[0] = 0.0
    scale[1 + cluster :] = math.inf
    tables_.mode[cluster:] = 0
    for a in range(len(table_ptr)):
        begin[a] = table_ptr[a]
    for e in range(len(factor)):
        begin[factor[e]] += stride[e] * x[variable[e]]
    total = 0.0
    for c in range(len(constants)):
        total += log_phi[begin[constants[c]]]
    if total == NEG_INF:
        scale[0] = -1.0
        return NEG_INF
    later = FactorGroups(
        groups_.table_ptr, groups_.members, groups_.member_ptr[group:], groups_.step_ptr, groups_.steps,
        groups_.axis_ptr[group:], groups_.axis_dim, groups_.constants,
    )  # fmt: skip
    fill_groups(log_phi, later, start[group:], arena, work_.digit)
    for g in range(group, num_groups):
        group_scale[g] = scale_log(g, start[g], size[g], arena, is_log, low)
        if group_scale[g] == NEG_INF:
            scale[0] = 1.0 + g
            return NEG_INF
    n, _ = collect(cluster, 0, _ALL, clusters_, tables_, work_)
    if n < 0:
        return NEG_INF
    for g in range(num_groups):
        total += group_scale[g]
    for n in range(num_vars):
        total += scale[1 + n]
        if parent[n] < 0:
            value = arena[start[num_groups + n]]
            total += value if is_log[num_groups + n] else math.log(value)
    return total


@fast_kernel
def update_chains(
    log_phi, x, rng, slicing, groups, clusters, tables, work, row, p, weight, total, squares, jumps, told, sums
):  # fmt: skip
    """Draw one block anew in all chains; chains are ladders of R rungs, each rung with tables of its own.

    log_phi [R, T] are the tables of each rung, x [L R, V] the states, rung after rung of each ladder, rng [L R, 1]
    their generators; row and p [X] are scratch. The conditional distributions of rung 0 times weight [X] are added to
    total [L, X], their squares to squares [L, X], unless total has no columns. With three ladders or more chains first
    offer to `jump`. told [2] counts offers and jumps. sums [L R] takes ln of the sum over the block; where that is zero
    the states stay as they are.
    """
    rungs = len(log_phi)
    keep = total.shape[1] > 0
    clusters_, tables_, work_ = Clusters(*clusters), ClusterTables(*tables), Workspace(*work)
    slicing_ = Slicing(*slicing)
    cut, before = slicing_.cut, jumps[4]
    dim, state_start = clusters_.dim, clusters_.state_start
    for c in range(len(x)):
        tables_c = log_phi[c % rungs]
        there = NEG_INF
        if len(x) >= 3 * rungs and jump(x, rng[c], c, rungs, cut, jumps):
            told[0] += 1.0
            there = block_sum(tables_c, x[c], slicing, groups, clusters, tables, work)
            for k in range(len(cut)):
                swap = x[c, cut[k]]
                x[c, cut[k]] = before[k]
                before[k] = swap
        # The old cutset comes last: its tables are needed again more often than those of the new one.
        log_sum = block_sum(tables_c, x[c], slicing, groups, clusters, tables, work)
        if there > NEG_INF and (there >= log_sum or random_unit(rng[c]) < math.exp(max(there - log_sum, -700.0))):
            told[1] += 1.0
            for k in range(len(cut)):
                x[c, cut[k]] = before[k]
            log_sum = block_sum(tables_c, x[c], slicing, groups, clusters, tables, work)
        sums[c] = log_sum
        if log_sum == NEG_INF:
            continue
        draw_states(x[c], rng[c], slicing_.variables, slicing_.separators, clusters, tables, row)
        if not keep or c % rungs > 0:
            continue
        distribute(len(dim) - 1, 0, _ALL, clusters_, tables_, work_, p)
        normalise(state_start, dim, p)
        total_c, squares_c = total[c // rungs], squares[c // rungs]
        for n in range(len(dim)):
            for s in range(state_start[n], state_start[n] + dim[n]):
                total_c[s] += weight[s] * p[s]
                squares_c[s] += weight[s] * p[s] * p[s]


@fast_kernel
def clamped_sums(log_phi, x, slicing, groups, clusters, tables, work, log_sum):
    """ln of the sum over a block in every chain x [L, V], with other tables log_phi [T], into log_sum [L]."""
    for c in range(len(x)):
        log_sum[c] = block_sum(log_phi, x[c], slicing, groups, clusters, tables, work)


@fast_kernel
def exclude_states(table, stride, card, state):
    """Make all entries of a table zero where the variable with this stride is not in the given state."""
    for t in range(len(table)):
        if (t // stride) % card != state:
            table[t] = NEG_INF
