# mypy: ignore-errors
"""Elimination of many graphs of one structure, one after the other in the same memory."""

import math

from equifactor.numerics.jit import fast_kernel
from equifactor.solvers.elimination.cluster_tables import fill_groups, normalise, scale_groups
from equifactor.solvers.elimination.elimination_kernels import collect, distribute

NEG_INF = -math.inf
_ALL = 2**62  # a budget that no pass uses up


@fast_kernel
def run_batch(
    log_phi, p, log_z, with_p, table_ptr, members, member_ptr, step_ptr, steps, group_axis_ptr, group_axis_dim, dim,
    sep_ptr, axis_dim, in_ptr, in_op, stride_ptr, strides, op_start, op_size, arena, is_log, low, mode, scale, parent,
    constants, state_start, scratch, scratch_start, buffer, offsets, kind, base, digit,
):  # fmt: skip
    """log_phi [N, t] to probabilities p [N, x] and log_z [N]; where log_z is -inf, p is zero."""
    num_vars = len(dim)
    num_groups = len(op_size) - num_vars
    for g in range(len(log_phi)):
        scale[:] = 0.0
        mode[:] = 0
        fill_groups(
            log_phi[g], table_ptr, members, member_ptr, step_ptr, steps, group_axis_ptr, group_axis_dim, op_start,
            arena, digit,
        )  # fmt: skip
        total = 0.0
        for c in range(len(constants)):
            total += log_phi[g, constants[c]]
        possible = total > NEG_INF and scale_groups(op_start, op_size, num_groups, arena, is_log, low, scale)
        if possible:
            n, _ = collect(
                0, 0, _ALL, dim, sep_ptr, axis_dim, in_ptr, in_op, stride_ptr, strides, op_start, op_size, arena,
                is_log, low, mode, scale, buffer, offsets, kind, base, digit,
            )  # fmt: skip
            possible = n >= 0
        if not possible:
            log_z[g] = NEG_INF
            p[g, :] = 0.0
            continue
        total += scale[0]
        for n in range(num_vars):
            total += scale[1 + n]
            if parent[n] < 0:
                value = arena[op_start[num_groups + n]]
                total += value if is_log[num_groups + n] else math.log(value)
        log_z[g] = total
        if with_p:
            distribute(
                num_vars - 1, 0, _ALL, dim, sep_ptr, axis_dim, in_ptr, in_op, stride_ptr, strides, op_start, op_size,
                arena, mode, state_start, p[g], scratch, scratch_start, buffer, offsets, kind, base, digit,
            )  # fmt: skip
            normalise(state_start, dim, p[g])
