# mypy: ignore-errors
"""Sampling a block of variables given all others: tables cut at the others' states, up, draws on the way back, down.

The arguments of a block are the records of `block_program.py` as plain tuples; see `elimination_kernels.py`.
"""

import math

from equifactor.numerics.fastmath import MIN_EXP, exp_
from equifactor.numerics.jit import fast_kernel
from equifactor.numerics.randomness import random_unit
from equifactor.solvers.elimination.cluster_tables import fill_groups, normalise, scale_groups
from equifactor.solvers.elimination.elimination_kernels import LOG, collect, distribute
from equifactor.solvers.elimination.program import Clusters, ClusterTables, FactorGroups, Workspace
from equifactor.solvers.sampling.block_program import Slicing

NEG_INF = -math.inf
_ALL = 2**62  # No pass uses up this budget.


@fast_kernel
def block_sum(log_phi, x, slicing, groups, clusters, tables, work):
    """Upward pass of a block given the states x [V] of the cutset; ln of the sum over all states of the block.

    log_phi [T] are the tables of the model.
    """
    slicing, groups, clusters = Slicing(*slicing), FactorGroups(*groups), Clusters(*clusters)
    tables, work = ClusterTables(*tables), Workspace(*work)
    begin, table_ptr, factor = slicing.begin, slicing.table_ptr, slicing.factor
    variable, stride, constants = slicing.variable, slicing.stride, slicing.constants
    for a in range(len(table_ptr)):
        begin[a] = table_ptr[a]
    for e in range(len(factor)):
        begin[factor[e]] += stride[e] * x[variable[e]]
    total = 0.0
    for c in range(len(constants)):
        total += log_phi[begin[constants[c]]]
    if total == NEG_INF:
        return NEG_INF
    num_vars = len(clusters.dim)
    num_groups = len(tables.size) - num_vars
    tables.scale[:] = 0.0
    tables.mode[:] = 0
    fill_groups(log_phi, groups, tables.start, tables.arena, work.digit)
    if not scale_groups(num_groups, tables):
        return NEG_INF
    n, _ = collect(0, 0, _ALL, clusters, tables, work)
    if n < 0:
        return NEG_INF
    total += tables.scale[0]
    for n in range(num_vars):
        total += tables.scale[1 + n]
        if clusters.parent[n] < 0:
            value = tables.arena[tables.start[num_groups + n]]
            total += value if tables.is_log[num_groups + n] else math.log(value)
    return total


@fast_kernel
def draw_block(x, rng, slicing, clusters, tables, row):
    """Draw the states of the block, after `block_sum`: the variable eliminated last first. Writes x [V].

    row is scratch with room for the states of any variable.
    """
    slicing, clusters, tables = Slicing(*slicing), Clusters(*clusters), ClusterTables(*tables)
    dim, sep_ptr, in_ptr, in_op = clusters.dim, clusters.sep_ptr, clusters.in_ptr, clusters.in_op
    stride_ptr, strides = clusters.stride_ptr, clusters.strides
    arena, start, mode = tables.arena, tables.start, tables.mode
    variables, separators = slicing.variables, slicing.separators
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
        while b > 0 and row[b] == 0.0:  # Rounding may leave the last state, which may be a zero.
            b -= 1
        x[variables[n]] = b


@fast_kernel
def update_chains(log_phi, x, rng, slicing, groups, clusters, tables, work, row, p, weight, total, squares, log_sum):
    """Draw one block anew in all chains; chains are ladders of R rungs, each rung with tables of its own.

    log_phi [R, T] are the tables of each rung, x [L R, V] the states, rung after rung of each ladder, rng [L R, 1]
    their generators; row and p [X] are scratch. The conditional distributions of rung 0 times weight [X] are added to
    total [L, X], their squares to squares [L, X], unless total has no columns. log_sum [L R] takes ln of the sum over
    the block; where it is -inf the states stay as they are.
    """
    rungs = len(log_phi)
    keep = total.shape[1] > 0
    clusters_, tables_, work_ = Clusters(*clusters), ClusterTables(*tables), Workspace(*work)
    dim, state_start = clusters_.dim, clusters_.state_start
    for c in range(len(x)):
        log_sum[c] = block_sum(log_phi[c % rungs], x[c], slicing, groups, clusters, tables, work)
        if log_sum[c] == NEG_INF:
            continue
        draw_block(x[c], rng[c], slicing, clusters, tables, row)
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


@fast_kernel
def log_score(log_phi, x, scope_ptr, scope_vars, strides, table_ptr):
    """The log score of an assignment x [V]."""
    total = 0.0
    for a in range(len(scope_ptr) - 1):
        at = table_ptr[a]
        for e in range(scope_ptr[a], scope_ptr[a + 1]):
            at += strides[e] * x[scope_vars[e]]
        total += log_phi[at]
    return total


@fast_kernel
def exchange(log_phi, x, rng, odd, model, tried, taken):
    """Offer neighbouring rungs of every ladder to exchange their states; pairs begin at rung `odd`.

    model is (scope_ptr, scope_vars, strides, table_ptr). tried and taken [R] count offers and exchanges above a rung.
    """
    scope_ptr, scope_vars, strides, table_ptr = model
    rungs = len(log_phi)
    for ladder in range(len(x) // rungs):
        for r in range(odd, rungs - 1, 2):
            low, high = ladder * rungs + r, ladder * rungs + r + 1
            here = log_score(log_phi[r], x[high], scope_ptr, scope_vars, strides, table_ptr)
            tried[r] += 1.0
            if here == NEG_INF:
                continue
            gain = here + log_score(log_phi[r + 1], x[low], scope_ptr, scope_vars, strides, table_ptr)
            gain -= log_score(log_phi[r], x[low], scope_ptr, scope_vars, strides, table_ptr)
            gain -= log_score(log_phi[r + 1], x[high], scope_ptr, scope_vars, strides, table_ptr)
            if gain >= 0.0 or random_unit(rng[low]) < math.exp(max(gain, -700.0)):
                taken[r] += 1.0
                for i in range(x.shape[1]):
                    swap = x[low, i]
                    x[low, i] = x[high, i]
                    x[high, i] = swap
