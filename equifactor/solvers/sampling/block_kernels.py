# mypy: ignore-errors
"""Draws of a block of variables given all others: slice the tables, sum up, draw on the way back, sum down.

The arguments of a block are the records of `block_program.py` as plain tuples; see `elimination_kernels.py`.
"""

import math

from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel
from equifactor.kernels.randomness import random_unit
from equifactor.solvers.cutsets.block_program import Slicing
from equifactor.solvers.cutsets.block_sum_kernels import block_sum
from equifactor.solvers.elimination.cluster_tables import normalise
from equifactor.solvers.elimination.draw_kernels import draw_states
from equifactor.solvers.elimination.elimination_kernels import NO_LIMIT, distribute_inside
from equifactor.solvers.elimination.program import Clusters
from equifactor.solvers.sampling.chain_move_kernels import BEFORE, jump


@fast_kernel
def update_chains(
    log_phi, x, rng, slicing, groups, clusters, tables, work, row, p, weight, total, squares, pool, jumps, jumped, sums
):  # fmt: skip
    """Draw one block in all replicas: L chains at R temperatures each, with tables of its own for each temperature.

    log_phi [R, T] are the tables of each temperature. x [L R, V] are the states, temperature after temperature of each
    chain, and rng [L R, 1] their generators. row and p [X] are scratch. The conditional distributions at temperature 0
    times weight [X] are added to total [L, X], their squares to squares [L, X], unless total has no columns. If pool
    [M, V] holds two or more states, each chain first tries to `jump`. jumped [2] counts tries and accepted jumps. sums
    [L R] takes ln of the sum over the block; if that sum is zero, the states stay as they are.
    """
    temperatures = len(log_phi)
    keep = total.shape[1] > 0
    clusters_, slicing_ = Clusters(*clusters), Slicing(*slicing)
    cut, before = slicing_.cut, jumps[BEFORE]
    dim, state_start = clusters_.dim, clusters_.state_start
    for c in range(len(x)):
        tables_c = log_phi[c % temperatures]
        there = NEG_INF
        if len(pool) > 1 and jump(x[c], rng[c], cut, pool, jumps):
            jumped[0] += 1.0
            there = block_sum(tables_c, x[c], slicing, groups, clusters, tables, work)
            for k in range(len(cut)):
                swap = x[c, cut[k]]
                x[c, cut[k]] = before[k]
                before[k] = swap
        # The old cutset comes last, because its tables are needed again more often than those of the new one.
        log_sum = block_sum(tables_c, x[c], slicing, groups, clusters, tables, work)
        if there > NEG_INF and (there >= log_sum or random_unit(rng[c]) < math.exp(max(there - log_sum, -700.0))):
            jumped[1] += 1.0
            for k in range(len(cut)):
                x[c, cut[k]] = before[k]
            log_sum = block_sum(tables_c, x[c], slicing, groups, clusters, tables, work)
        sums[c] = log_sum
        if log_sum == NEG_INF:
            continue
        draw_states(x[c], rng[c], slicing_.variables, slicing_.separators, clusters, tables, row)
        if not keep or c % temperatures > 0:
            continue
        distribute_inside(len(dim) - 1, 0, NO_LIMIT, clusters, tables, work, p)
        normalise(state_start, dim, p)
        total_c, squares_c = total[c // temperatures], squares[c // temperatures]
        for n in range(len(dim)):
            for s in range(state_start[n], state_start[n] + dim[n]):
                total_c[s] += weight[s] * p[s]
                squares_c[s] += weight[s] * p[s] * p[s]


@fast_kernel
def clamped_sums(log_phi, x, slicing, groups, clusters, tables, work, log_sum):
    """Write ln of the sum over a block in every chain x [L, V], with other tables log_phi [T], into log_sum [L]."""
    for c in range(len(x)):
        log_sum[c] = block_sum(log_phi, x[c], slicing, groups, clusters, tables, work)


@fast_kernel
def exclude_states(table, stride, card, state):
    """Set all entries of a table to zero in which the variable with this stride is not in the given state."""
    for t in range(len(table)):
        if (t // stride) % card != state:
            table[t] = NEG_INF
