# mypy: ignore-errors
"""The sum over a block of variables given the states of a cutset: tables are sliced, then eliminated.

The arguments of a block are the records of `block_program.py` as plain tuples; see `elimination_kernels.py`.
"""

import math

from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel
from equifactor.solvers.cutsets.block_program import Slicing
from equifactor.solvers.elimination.cluster_tables import fill_groups, scale_log
from equifactor.solvers.elimination.elimination_kernels import NO_LIMIT, collect_inside
from equifactor.solvers.elimination.program import Clusters, ClusterTables, FactorGroups, Workspace


@fast_kernel
def block_sum(log_phi, x, slicing, groups, clusters, tables, work):
    """Make the upward pass of a block given the states x [V] of the cutset; return ln of the sum over all its states.

    log_phi [T] are the tables of the model.
    """
    return block_sum_from(0, 0, log_phi, x, slicing, groups, clusters, tables, work)


@fast_kernel
def block_sum_from(group, cluster, log_phi, x, slicing, groups, clusters, tables, work):
    """Do the same as `block_sum` if tables before the given group and messages before the given cluster are valid.

    If the sum is zero, scale[0] is the reason: -1 for a factor whose variables are all cut, and 1 + g for group g. It
    is 0 for the first cluster n whose scale[1 + n] is infinite.
    """
    total = open_block(group, cluster, log_phi, x, slicing, groups, clusters, tables, work)
    if total == NEG_INF:
        return NEG_INF
    n, _ = collect_inside(cluster, 0, NO_LIMIT, clusters, tables, work)
    return close_block(total, slicing, clusters, tables) if n >= 0 else NEG_INF


@fast_kernel
def open_block(group, cluster, log_phi, x, slicing, groups, clusters, tables, work):
    """Slice the tables from the given group on; return the log score of factors without free variables, or -inf."""
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
    later = (  # not a record: `fill_groups` is compiled for plain tuples
        groups_.table_ptr, groups_.members, groups_.member_ptr[group:], groups_.step_ptr, groups_.steps,
        groups_.axis_ptr[group:], groups_.axis_dim, groups_.constants,
    )  # fmt: skip
    fill_groups(log_phi, later, start[group:], arena, work_.digit)
    for g in range(group, num_groups):
        group_scale[g] = scale_log(g, start[g], size[g], arena, is_log, low)
        if group_scale[g] == NEG_INF:
            scale[0] = 1.0 + g
            return NEG_INF
    return total


@fast_kernel
def close_block(total, slicing, clusters, tables):
    """Return ln of the sum over the block when all messages are made; `total` is what `open_block` returned."""
    group_scale, parent, tables_ = Slicing(*slicing).group_scale, Clusters(*clusters).parent, ClusterTables(*tables)
    start, size, arena, is_log, scale = tables_.start, tables_.size, tables_.arena, tables_.is_log, tables_.scale
    num_vars = len(parent)
    num_groups = len(size) - num_vars
    for g in range(num_groups):
        total += group_scale[g]
    for n in range(num_vars):
        total += scale[1 + n]
        if parent[n] < 0:
            value = arena[start[num_groups + n]]
            total += value if is_log[num_groups + n] else math.log(value)
    return total
