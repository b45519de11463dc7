# mypy: ignore-errors
"""Sums over all states of a cutset, each a sum over its block, in nested loops that keep unchanged tables.

`levels` is a `LevelArrays` as a plain tuple; the other arguments of a block are as in `block_sum_kernels.py`.
"""

import math

from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined
from equifactor.solvers.cutsets.block_sum_kernels import block_sum_from, close_block, open_block
from equifactor.solvers.cutsets.cutset_levels import LevelArrays
from equifactor.solvers.elimination.elimination_kernels import collect_inside, distribute_inside
from equifactor.solvers.elimination.program import Clusters, ClusterTables

# Places in `kept`: the level from which messages must be recomputed; one more than the cluster at which a pass that has
# not ended goes on, 0 if there is no such pass; its block in that cluster; its level.
FRESH, PAUSED, BLOCK, LEVEL = 0, 1, 2, 3
PASS_ENTRIES = 10  # The fixed cost of a pass, in table entries for each variable of the model. Chosen by hand.


@inlined
def _set_states(number, cut, states, x):
    """Set the cut variables to the state with this number; return the level of the first change, 0 for none."""
    changed = 0
    for k in range(len(cut) - 1, -1, -1):
        card = states[k + 1] // states[k]
        if x[cut[k]] != number % card:
            x[cut[k]] = number % card
            changed = k + 1
        number //= card
    return changed


@inlined
def _failed_level(level, levels, scale):
    """Return the level at which `block_sum_from` met a zero, which excludes all states of the variables after it."""
    if scale[0] < 0.0:
        return len(levels.cut)
    r = level
    if scale[0] > 0.0:
        while levels.group[r + 1] < scale[0]:
            r += 1
        return r
    n = levels.cluster[level]
    while scale[1 + n] < math.inf:
        n += 1
    while levels.cluster[r + 1] <= n:
        r += 1
    return r


@fast_kernel
def sum_over_cutset(log_phi, x, begin, effort, levels, slicing, groups, clusters, tables, work, log_sum, kept, score):
    """Write ln of the sums over the block at states from `begin` into log_sum [N]; return the next state to visit.

    A call ends after the work of about `effort` table entries, in the middle of a pass if need be. Passes are not
    counted, because one that meets a zero early may take a thousandth of another. States that a zero excludes together
    take a single pass. x [V], kept [4] and score [1] are as the previous call left them. `FRESH` to `LEVEL` name the
    numbers in `kept`, and score[0] is what `open_block` returned.
    """
    levels_, scale = LevelArrays(*levels), ClusterTables(*tables).scale
    num_clusters = len(Clusters(*clusters).dim)
    n = begin
    spent = 0
    while n < len(log_sum) and spent < effort:
        if kept[PAUSED] > 0:
            level, cluster, block = kept[LEVEL], kept[PAUSED] - 1, kept[BLOCK]
        else:
            level = _set_states(n, levels_.cut, levels_.states, x)
            level = min(level, kept[FRESH]) if n else 0
            cluster, block = levels_.cluster[level], 0
            score[0] = open_block(levels_.group[level], cluster, log_phi, x, slicing, groups, clusters, tables, work)
            spent += PASS_ENTRIES * len(x)
        w = score[0]
        if w > NEG_INF:
            cluster, block = collect_inside(cluster, block, max(1, effort - spent), clusters, tables, work)
            if 0 <= cluster < num_clusters:
                kept[PAUSED], kept[BLOCK], kept[LEVEL] = cluster + 1, block, level
                return n
            w = close_block(w, slicing, clusters, tables) if cluster >= 0 else NEG_INF
        kept[PAUSED] = 0
        kept[FRESH] = len(levels_.cut)
        alike = 1
        last = len(levels_.cut)
        if w == NEG_INF:
            failed = _failed_level(level, levels_, scale)
            last = failed if scale[0] == 0.0 else level - 1
            kept[FRESH] = failed if scale[0] == 0.0 else level
            alike = len(log_sum) // levels_.states[failed]
            alike -= n % alike
        for r in range(level, last + 1):
            spent += levels_.work[r]
        for k in range(n, n + alike):
            log_sum[k] = w
        n += alike
    return n


@fast_kernel
def marginals_over_cutset(
    log_phi, x, chosen, weight, begin, end, levels, slicing, groups, clusters, tables, work, p, total, mass, waiting
):  # fmt: skip
    """Add conditional distributions of the block at states chosen[begin:end], times their weights, to total [X].

    chosen [K] must be ascending, and its sums must be positive. mass [m+1] and waiting [2, W] are kept from call to
    call; with begin = end, the numbers that still wait are added.
    """
    levels_ = LevelArrays(*levels)
    count = len(levels_.cut)
    for k in range(begin, end):
        level = _set_states(chosen[k], levels_.cut, levels_.states, x)
        level = level if k else 0
        for r in range(count - 1, level - 1, -1):
            _close(r, levels, clusters, tables, work, p, total, mass, waiting)
        block_sum_from(
            levels_.group[level], levels_.cluster[level], log_phi, x, slicing, groups, clusters, tables, work
        )
        mass[count] = weight[k]
        _close(count, levels, clusters, tables, work, p, total, mass, waiting)
    if begin == end:
        for r in range(count - 1, -1, -1):
            _close(r, levels, clusters, tables, work, p, total, mass, waiting)


@fast_kernel
def _close(level, levels, clusters, tables, work, p, total, mass, waiting):
    """Pass down through the clusters of one level, with the sums from above since its tables were computed."""
    levels_, clusters_, tables_ = LevelArrays(*levels), Clusters(*clusters), ClusterTables(*tables)
    lower, lower_level, upper_level, place = levels_.lower, levels_.lower_level, levels_.upper_level, levels_.place
    start, size, arena = tables_.start, tables_.size, tables_.arena
    dim, state_start = clusters_.dim, clusters_.state_start
    num_groups = len(size) - len(dim)
    weight = mass[level]
    mass[level] = 0.0
    if weight == 0.0:
        return
    if level > 0:
        mass[level - 1] += weight
    for b in range(len(lower)):
        at, message = place[b], start[num_groups + lower[b]]
        if lower_level[b] == level:
            for t in range(place[b + 1] - at):
                arena[message + t] = waiting[0, at + t]
                waiting[0, at + t] = 0.0
        elif upper_level[b] == level:  # The pass down overwrites a message that is needed again.
            for t in range(place[b + 1] - at):
                waiting[1, at + t] = arena[message + t]
    # The work of all clusters of the level is the budget, so that the pass ends at the first of them.
    distribute_inside(levels_.cluster[level + 1] - 1, 0, levels_.work[level], clusters, tables, work, p)
    for b in range(len(lower)):
        if upper_level[b] == level:
            at, message = place[b], start[num_groups + lower[b]]
            whole = 0.0
            for t in range(place[b + 1] - at):
                whole += arena[message + t]
            for t in range(place[b + 1] - at):
                waiting[0, at + t] += arena[message + t] * (weight / whole)
                arena[message + t] = waiting[1, at + t]
    for n in range(levels_.cluster[level], levels_.cluster[level + 1]):
        whole = 0.0
        for s in range(state_start[n], state_start[n] + dim[n]):
            whole += p[s]
        for s in range(state_start[n], state_start[n] + dim[n]):
            total[s] += p[s] * (weight / whole)
