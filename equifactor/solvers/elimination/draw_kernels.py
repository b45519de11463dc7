# mypy: ignore-errors
"""Backward sampling: draws of states from the products of the clusters, after one upward pass for all draws.

The arguments `clusters` and `tables` are the records of `program.py`, after `collect`; see `elimination_kernels.py`.
"""

from equifactor.kernels.fastmath import MIN_EXP, NEG_INF, exp_
from equifactor.kernels.jit import fast_kernel
from equifactor.kernels.randomness import random_unit
from equifactor.solvers.elimination.elimination_kernels import LOG
from equifactor.solvers.elimination.program import Clusters, ClusterTables


@fast_kernel
def draw_states(x, rng, variables, separators, clusters, tables, row):
    """Draw the states of all clusters after an upward pass, the variable eliminated last first. Writes x.

    x [.] holds a state for every variable. variables [v] is the variable that each cluster eliminates. separators lists
    the clusters that eliminate the variables of its separator. row is scratch with room for the states of any variable.
    """
    clusters, tables = Clusters(*clusters), ClusterTables(*tables)
    dim, sep_ptr, in_ptr, in_op = clusters.dim, clusters.sep_ptr, clusters.in_ptr, clusters.in_op
    stride_ptr, strides = clusters.stride_ptr, clusters.strides
    arena, start, mode = tables.arena, tables.start, tables.mode
    for n in range(len(dim) - 1, -1, -1):
        d, first, width = dim[n], sep_ptr[n], sep_ptr[n + 1] - sep_ptr[n]
        in_logs = mode[n] == LOG
        for y in range(d):
            row[y] = 0.0 if in_logs else 1.0
        for e in range(in_ptr[n + 1] - in_ptr[n]):
            at = start[in_op[in_ptr[n] + e]]
            s = stride_ptr[n] + e * width
            for k in range(width):
                at += strides[s + k] * x[variables[separators[first + k]]]
            if in_logs:
                for y in range(d):
                    row[y] += arena[at + y]
            else:
                for y in range(d):
                    row[y] *= arena[at + y]
        if in_logs:
            top = NEG_INF
            for y in range(d):
                top = max(top, row[y])
            for y in range(d):
                gap = row[y] - top if top > NEG_INF else 0.0
                row[y] = exp_(gap) if gap > MIN_EXP else 0.0
        scale = 0.0
        for y in range(d):
            scale += row[y]
        u = random_unit(rng) * scale
        b = d - 1
        for y in range(d - 1):
            u -= row[y]
            if u < 0.0:
                b = y
                break
        while b > 0 and row[b] == 0.0:  # rounding may leave the last state, which may be a zero
            b -= 1
        x[variables[n]] = b


@fast_kernel
def draw_many(x, rng, places, separators, clusters, tables, row, variables, state_of, state_start, states):
    """Draw all variables independently, once for each row of states [N, V].

    x and places [v] are by cluster. Cluster n eliminates variable variables[n] of the model, whose state there is
    state_of[state_start[n] + x]; other columns of `states` stay as they are.
    """
    for b in range(len(states)):
        draw_states(x, rng, places, separators, clusters, tables, row)
        for n in range(len(places)):
            states[b, variables[n]] = state_of[state_start[n] + x[n]]
