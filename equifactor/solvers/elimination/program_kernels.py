# mypy: ignore-errors
"""Index arrays of an elimination: which tables each cluster multiplies, and how their axes lie in it.

Clusters, and the axes of their tables, are numbered by place in the elimination order. The axes of cluster n are its
separator, latest elimination first, then its own variable. The own variable is last (fastest) in every table that n
multiplies, so a row over it is contiguous everywhere.
"""

import numpy as np

from equifactor.kernels.jit import kernel

_SMALL = 64.0  # Tables with fewer entries are always merged: they have 512 bytes, eight lines of a cache.
_LARGE = 2.0**14  # Tables with more entries are never merged: they have 128 KiB, which fit into an L2 cache.


@kernel
def group_factors(home_ptr, home_factors, scope_ptr, scope_place, dim, sep_ptr, sep):
    """Group the factors of each cluster that are multiplied into one table in advance.

    A factor joins a table whose scope holds its own. It also joins any other table while the union stays small against
    the cluster, since a pass over the cluster per table costs more than the union. The array home_factors must be
    sorted by falling size within a cluster. Returns the group of each factor [F], numbered cluster after cluster and -1
    without scope, and the cluster of each group. Then, per group and cluster axis (own variable last), whether the
    group has the axis.
    """
    num_vars = len(dim)
    group = np.full(len(scope_ptr) - 1, -1, np.int64)
    most = 0
    for n in range(num_vars):
        most += (home_ptr[n + 1] - home_ptr[n]) * (sep_ptr[n + 1] - sep_ptr[n] + 1)
    cluster_of = np.empty(len(home_factors), np.int64)
    has = np.zeros(most, np.bool_)
    has_ptr = np.zeros(len(home_factors) + 1, np.int64)
    size = np.empty(len(home_factors))
    axis = np.empty(num_vars, np.int64)
    count = 0
    for n in range(num_vars):
        width = sep_ptr[n + 1] - sep_ptr[n]
        entries = float(dim[n])
        for k in range(width):
            axis[sep[sep_ptr[n] + k]] = k
            entries *= dim[sep[sep_ptr[n] + k]]
        axis[n] = width
        cap = min(max(entries / 16.0, _SMALL), _LARGE)
        first = count
        for r in range(home_ptr[n], home_ptr[n + 1]):
            a = home_factors[r]
            chosen = -1
            for g in range(first, count):
                union = size[g]
                for e in range(scope_ptr[a], scope_ptr[a + 1]):
                    if not has[has_ptr[g] + axis[scope_place[e]]]:
                        union *= dim[scope_place[e]]
                if union <= max(size[g], cap):
                    chosen = g
                    size[g] = union
                    break
            if chosen < 0:
                chosen = count
                cluster_of[count] = n
                has_ptr[count + 1] = has_ptr[count] + width + 1
                size[count] = 1.0
                for e in range(scope_ptr[a], scope_ptr[a + 1]):
                    size[count] *= dim[scope_place[e]]
                count += 1
            group[a] = chosen
            for e in range(scope_ptr[a], scope_ptr[a + 1]):
                has[has_ptr[chosen] + axis[scope_place[e]]] = True
    return group, cluster_of[:count].copy(), has_ptr[: count + 1].copy(), has


@kernel
def lay_out(dim, sep_ptr, sep, parent, cluster_of, has_ptr, has):
    """Return the operands of every cluster (its groups, then its children's messages) and their strides.

    Operand g < G is group g, operand G + n the message of cluster n. Returns in_ptr [v+1], in_op, stride_ptr [v+1] and
    strides along the separator: those of the k-th operand of cluster n begin at stride_ptr[n] + k * width of n.
    """
    num_vars, num_groups = len(dim), len(cluster_of)
    in_ptr = np.zeros(num_vars + 1, np.int64)
    for g in range(num_groups):
        in_ptr[cluster_of[g] + 1] += 1
    for n in range(num_vars):
        if parent[n] >= 0:
            in_ptr[parent[n] + 1] += 1
    stride_ptr = np.zeros(num_vars + 1, np.int64)
    for n in range(num_vars):
        stride_ptr[n + 1] = stride_ptr[n] + in_ptr[n + 1] * (sep_ptr[n + 1] - sep_ptr[n])
        in_ptr[n + 1] += in_ptr[n]
    in_op = np.empty(in_ptr[num_vars], np.int64)
    strides = np.zeros(stride_ptr[num_vars], np.int64)
    used = np.zeros(num_vars, np.int64)
    for g in range(num_groups):
        n = cluster_of[g]
        width = sep_ptr[n + 1] - sep_ptr[n]
        base = stride_ptr[n] + used[n] * width
        in_op[in_ptr[n] + used[n]] = g
        used[n] += 1
        step = dim[n]
        for k in range(width - 1, -1, -1):
            if has[has_ptr[g] + k]:
                strides[base + k] = step
                step *= dim[sep[sep_ptr[n] + k]]
    for c in range(num_vars):
        n = parent[c]
        if n < 0:
            continue
        width = sep_ptr[n + 1] - sep_ptr[n]
        base = stride_ptr[n] + used[n] * width
        in_op[in_ptr[n] + used[n]] = num_groups + c
        used[n] += 1
        step = dim[n]
        k = width - 1
        for r in range(sep_ptr[c + 1] - 2, sep_ptr[c] - 1, -1):  # the last axis of the message is n itself
            while sep[sep_ptr[n] + k] != sep[r]:
                k -= 1
            strides[base + k] = step
            step *= dim[sep[r]]
    return in_ptr, in_op, stride_ptr, strides


@kernel
def factor_steps(group, cluster_of, has_ptr, has, scope_ptr, scope_place, factor_stride, dim, sep_ptr, sep):
    """Return how the factors fill the groups: axes of each group, and strides of each factor along them.

    Returns axis_ptr [G+1], axis_dim (own variable last), member_ptr [G+1], members (factors by group), step_ptr [M+1]
    and steps: the stride of the factor's own table along each axis of its group, 0 if it lacks the axis.
    """
    num_groups = len(cluster_of)
    axis_ptr = np.zeros(num_groups + 1, np.int64)
    member_ptr = np.zeros(num_groups + 1, np.int64)
    for g in range(num_groups):
        for k in range(has_ptr[g], has_ptr[g + 1]):
            axis_ptr[g + 1] += has[k]
        axis_ptr[g + 1] += axis_ptr[g]
    for a in range(len(group)):
        if group[a] >= 0:
            member_ptr[group[a] + 1] += 1
    for g in range(num_groups):
        member_ptr[g + 1] += member_ptr[g]
    members = np.empty(member_ptr[num_groups], np.int64)
    used = np.zeros(num_groups, np.int64)
    for a in range(len(group)):
        g = group[a]
        if g >= 0:
            members[member_ptr[g] + used[g]] = a
            used[g] += 1
    axis_dim = np.empty(axis_ptr[num_groups], np.int64)
    step_ptr = np.zeros(len(members) + 1, np.int64)
    for g in range(num_groups):
        for m in range(member_ptr[g], member_ptr[g + 1]):
            step_ptr[m + 1] = step_ptr[m] + axis_ptr[g + 1] - axis_ptr[g]
    steps = np.zeros(step_ptr[len(members)], np.int64)
    axis = np.empty(len(dim), np.int64)
    for g in range(num_groups):
        n = cluster_of[g]
        at = axis_ptr[g]
        for k in range(has_ptr[g + 1] - has_ptr[g]):
            if has[has_ptr[g] + k]:
                place = n if sep_ptr[n] + k == sep_ptr[n + 1] else sep[sep_ptr[n] + k]
                axis[place] = at - axis_ptr[g]
                axis_dim[at] = dim[place]
                at += 1
        for m in range(member_ptr[g], member_ptr[g + 1]):
            a = members[m]
            for e in range(scope_ptr[a], scope_ptr[a + 1]):
                steps[step_ptr[m] + axis[scope_place[e]]] = factor_stride[e]
    return axis_ptr, axis_dim, member_ptr, members, step_ptr, steps


@kernel
def table_strides(scope_ptr, scope_vars, card):
    """Return the stride [E] in a factor's table (C order) of each variable of its scope."""
    stride = np.ones(len(scope_vars), np.int64)
    for a in range(len(scope_ptr) - 1):
        for e in range(scope_ptr[a + 1] - 2, scope_ptr[a] - 1, -1):
            stride[e] = stride[e + 1] * card[scope_vars[e + 1]]
    return stride
