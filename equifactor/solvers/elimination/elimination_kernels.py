# mypy: ignore-errors
"""The passes of an elimination over its clusters, block by block: a cluster table is never held as a whole.

Every cluster multiplies its operands (see `program_kernels.py`) and removes its own variable. Sums are taken in the
linear domain, with every message scaled to a largest entry in [1/2, 1). Products of non-negative numbers lose only
range, so they are watched. If a positive product falls below `SAFE`, the cluster is computed again in the log domain,
and its message stays there until its range allows otherwise. Both domains give the same digits.

Each pass runs for about `budget` operations and returns how far it got, so that the caller can check the clock.

The arguments `clusters`, `groups`, `tables` and `work` are the records of `program.py`, passed as plain tuples. Each
pass makes records of them again: Numba takes five times as long to recognise a NamedTuple. Fields that loops use are
unpacked first, because every access to a field of a record counts references. Other kernels call the passes by their
addresses, which are in `work`, so that the passes are compiled once.
"""

import math

import numpy as np
from numba import types

from equifactor.kernels.by_address import Separate
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined
from equifactor.solvers.elimination.cluster_block import (
    SAFE,
    add,
    add_rows,
    advance,
    best_of_rows,
    condition,
    exp_rows,
    log_sum_rows,
    multiply,
    multiply_watched,
    open_cluster,
    scatter,
    sum_rows,
)
from equifactor.solvers.elimination.cluster_tables import (
    fill_groups,
    normalise,
    scale_groups,
    scale_linear,
    scale_log,
    to_log,
)
from equifactor.solvers.elimination.program import Clusters, ClusterTables, FactorGroups, Workspace

LINEAR, WATCHED, LOG = 0, 1, 2  # the ways to compute a cluster
NO_LIMIT = 2**62  # a budget that no pass uses up


@fast_kernel
def collect(n, block, budget, clusters, tables, work):
    """Run the upward pass from block `block` of cluster n: messages go to the arena, divisors to scale [1+v].

    Returns the next cluster and block, or (-1, 0) when the sum of all scores is zero.
    """
    clusters, tables, work = Clusters(*clusters), ClusterTables(*tables), Workspace(*work)
    num_vars = len(clusters.dim)
    num_groups = len(tables.size) - num_vars
    dim, sep_ptr, axis_dim = clusters.dim, clusters.sep_ptr, clusters.axis_dim
    in_ptr, in_op, stride_ptr, strides = clusters.in_ptr, clusters.in_op, clusters.stride_ptr, clusters.strides
    buffer, offsets, kind, base, digit = work.buffer, work.offsets, work.kind, work.base, work.digit
    arena, start, size = tables.arena, tables.start, tables.size
    is_log, low, mode, scale = tables.is_log, tables.low, tables.mode, tables.scale
    spent = 0
    while n < num_vars and spent < budget:
        d, num_in = dim[n], in_ptr[n + 1] - in_ptr[n]
        if block == 0:
            _choose_mode(n, in_ptr, in_op, start, size, arena, is_log, low, mode)
        rows, split, blocks = open_cluster(
            n, block, dim, sep_ptr, axis_dim, in_ptr, in_op, stride_ptr, strides, start, offsets, kind, base, digit
        )
        op = num_groups + n
        out = start[op]
        lost = 0
        while block < blocks and spent < budget and lost == 0:
            if mode[n] == LOG:
                add(num_in, rows, d, arena, offsets, kind, base, buffer)
                log_sum_rows(rows, d, buffer, arena, out + block * rows)
            else:
                if mode[n] == LINEAR:
                    multiply(num_in, rows, d, arena, offsets, kind, base, buffer)
                else:
                    lost = multiply_watched(num_in, rows, d, arena, offsets, base, buffer)
                sum_rows(rows, d, buffer, arena, out + block * rows)
            advance(n, split, num_in, sep_ptr, axis_dim, stride_ptr, strides, base, digit)
            block += 1
            spent += rows * d * (num_in + 1)
        if lost > 0:
            mode[n] = LOG
            block = 0
        elif block == blocks:
            if mode[n] == LOG:
                taken = scale_log(op, out, size[op], arena, is_log, low)
            else:
                taken = scale_linear(op, out, size[op], arena, is_log, low)
            if taken == NEG_INF:
                return -1, 0
            scale[1 + n] = taken
            n += 1
            block = 0
    return n, block


@fast_kernel
def _choose_mode(n, in_ptr, in_op, start, size, arena, is_log, low, mode):
    """Choose linear while no product can be lost, watched when one could, log when an operand is in logs.

    With log, all operands are converted to logs. A cluster that was found to lose products stays in logs.
    """
    first, last = in_ptr[n], in_ptr[n + 1]
    least = 1.0
    in_logs = mode[n] == LOG
    for r in range(first, last):
        in_logs = in_logs or is_log[in_op[r]]
        least *= low[in_op[r]]
    mode[n] = LOG if in_logs else LINEAR if least > SAFE else WATCHED
    for r in range(first, last if in_logs else first):
        op = in_op[r]
        if not is_log[op]:
            to_log(arena, start[op], size[op])
            is_log[op] = True


@fast_kernel
def distribute(n, block, budget, clusters, tables, work, p):
    """Run the downward pass from block `block` of cluster n to cluster 0: probabilities of every state go to p [x].

    A message slot is overwritten by the probabilities of its separator, P(s). A cluster's own products then give P(s,
    x) = P(s) q(s, x) / sum_x q(s, x): nothing is divided by a message, and products that underflow have no probability.
    """
    clusters, tables, work = Clusters(*clusters), ClusterTables(*tables), Workspace(*work)
    num_groups = len(tables.size) - len(clusters.dim)
    dim, sep_ptr, axis_dim = clusters.dim, clusters.sep_ptr, clusters.axis_dim
    in_ptr, in_op, stride_ptr, strides = clusters.in_ptr, clusters.in_op, clusters.stride_ptr, clusters.strides
    buffer, offsets, kind, base, digit = work.buffer, work.offsets, work.kind, work.base, work.digit
    scratch, scratch_start = work.scratch, work.scratch_start
    arena, start, size, mode, state_start = tables.arena, tables.start, tables.size, tables.mode, clusters.state_start
    spent = 0
    while n >= 0 and spent < budget:
        d, num_in = dim[n], in_ptr[n + 1] - in_ptr[n]
        rows, split, blocks = open_cluster(
            n, block, dim, sep_ptr, axis_dim, in_ptr, in_op, stride_ptr, strides, start, offsets, kind, base, digit
        )
        above = start[num_groups + n]
        first_state = state_start[n]
        if block == 0:
            if sep_ptr[n + 1] == sep_ptr[n]:
                arena[above] = 1.0
            for x in range(d):
                p[first_state + x] = 0.0
            _clear_scratch(in_ptr[n], in_ptr[n + 1], in_op, num_groups, size, scratch, scratch_start)
        while block < blocks and spent < budget:
            if mode[n] == LOG:
                add(num_in, rows, d, arena, offsets, kind, base, buffer)
                exp_rows(rows, d, buffer)
            else:
                multiply(num_in, rows, d, arena, offsets, kind, base, buffer)
            condition(rows, d, arena, above + block * rows, buffer)
            add_rows(rows, d, buffer, p, first_state)
            for e in range(num_in):
                op = in_op[in_ptr[n] + e]
                if op >= num_groups:
                    to = scratch_start[e] + base[e] - start[op]
                    scatter(rows, d, buffer, scratch, to, offsets, e * rows, kind[e])
            advance(n, split, num_in, sep_ptr, axis_dim, stride_ptr, strides, base, digit)
            block += 1
            spent += 2 * rows * d * (num_in + 1)
        if block == blocks:
            for e in range(num_in):
                op = in_op[in_ptr[n] + e]
                if op >= num_groups:
                    for t in range(size[op]):
                        arena[start[op] + t] = scratch[scratch_start[e] + t]
            n -= 1
            block = 0
    return n, block


_INTS, _FLOATS, _BOOLS = (types.Array(t, 1, "C") for t in (types.int64, types.float64, types.boolean))
_TABLES = types.Tuple([_INTS, _INTS, _FLOATS, _BOOLS, _FLOATS, _INTS, _FLOATS])
_WORK = types.Tuple([_FLOATS, *[_INTS] * 4, _FLOATS, _INTS, types.int64, types.int64])
_GIVEN = (*[types.int64] * 3, types.UniTuple(_INTS, len(Clusters._fields)), _TABLES, _WORK)
_PLACE = types.UniTuple(types.int64, 2)
COLLECT, DISTRIBUTE = Separate(collect, _PLACE(*_GIVEN)), Separate(distribute, _PLACE(*_GIVEN, _FLOATS))
_call_collect, _call_distribute = COLLECT.call, DISTRIBUTE.call
_COLLECT_AT, _DISTRIBUTE_AT = Workspace._fields.index("collect_at"), Workspace._fields.index("distribute_at")


@inlined
def collect_inside(n, block, budget, clusters, tables, work):
    """Run `collect` from another kernel, with records as plain tuples; the workspace must be made with `inside`."""
    return _call_collect(work[_COLLECT_AT], (n, block, budget, clusters, tables, work))


@inlined
def distribute_inside(n, block, budget, clusters, tables, work, p):
    """Run `distribute` from another kernel, likewise."""
    return _call_distribute(work[_DISTRIBUTE_AT], (n, block, budget, clusters, tables, work, p))


@inlined
def _clear_scratch(first, last, in_op, num_groups, size, scratch, scratch_start):
    """Set to zero where the probabilities of the separators below the operands in_op[first:last] are summed."""
    end = 0
    for r in range(first, last):
        scratch_start[r - first] = end
        if in_op[r] >= num_groups:
            for t in range(end, end + size[in_op[r]]):
                scratch[t] = 0.0
            end += size[in_op[r]]


@fast_kernel
def maximise_clusters(n, block, budget, clusters, work, start, arena, choice, choice_start):
    """Run the upward pass for the best score from block `block` of cluster n; write best states of rows to `choice`."""
    clusters, work = Clusters(*clusters), Workspace(*work)
    num_vars = len(clusters.dim)
    num_groups = len(start) - num_vars
    dim, sep_ptr, axis_dim = clusters.dim, clusters.sep_ptr, clusters.axis_dim
    in_ptr, in_op, stride_ptr, strides = clusters.in_ptr, clusters.in_op, clusters.stride_ptr, clusters.strides
    buffer, offsets, kind, base, digit = work.buffer, work.offsets, work.kind, work.base, work.digit
    spent = 0
    while n < num_vars and spent < budget:
        d, num_in = dim[n], in_ptr[n + 1] - in_ptr[n]
        rows, split, blocks = open_cluster(
            n, block, dim, sep_ptr, axis_dim, in_ptr, in_op, stride_ptr, strides, start, offsets, kind, base, digit
        )
        out = start[num_groups + n]
        while block < blocks and spent < budget:
            add(num_in, rows, d, arena, offsets, kind, base, buffer)
            best_of_rows(rows, d, buffer, arena, out + block * rows, choice, choice_start[n] + block * rows)
            advance(n, split, num_in, sep_ptr, axis_dim, stride_ptr, strides, base, digit)
            block += 1
            spent += rows * d * (num_in + 1)
        if block == blocks:
            n += 1
            block = 0
    return n, block


@fast_kernel
def trace_back(eliminated, scope_ptr, scope, choice_start, choice, card, states):
    """Fill in the states of the eliminated variables, the last one first.

    Variable eliminated[n] depends on the variables scope[scope_ptr[n]:scope_ptr[n+1]], which are eliminated later or
    not at all. Its best states for each of their states, in C order, begin at choice[choice_start[n]].
    """
    for n in range(len(eliminated) - 1, -1, -1):
        row = 0
        for r in range(scope_ptr[n], scope_ptr[n + 1]):
            row = row * card[scope[r]] + states[scope[r]]
        states[eliminated[n]] = choice[choice_start[n] + row]


@fast_kernel
def run_batch(log_phi, with_p, p, log_z, probed, groups, clusters, tables, work):
    """Eliminate many graphs of one structure, one after another in the same memory.

    log_phi [N, t] becomes log_z [N] and, with `with_p`, probabilities p [N, x]; if log_z is -inf, p is zero. `probed`
    is (slots [K], entry_of_slot [K], entries [N, T]): with probabilities, the numbers that the separators leave in the
    arena at `slots` go into the entries.
    """
    slots, entry_of_slot, entries = probed
    constants, digit = FactorGroups(*groups).constants, Workspace(*work).digit
    own, room = Clusters(*clusters), ClusterTables(*tables)
    state_start, dim, parent = own.state_start, own.dim, own.parent
    start, arena, is_log, mode, scale = room.start, room.arena, room.is_log, room.mode, room.scale
    # The passes are called with numbers that are not constants, as from Python, so that they are compiled once. By
    # address they took 7 % longer on a thousand grids of 4x4.
    zero, budget = np.int64(0), np.int64(NO_LIMIT)
    num_vars = len(dim)
    num_groups = len(start) - num_vars
    for g in range(len(log_phi)):
        scale[:] = 0.0
        mode[:] = 0
        fill_groups(log_phi[g], groups, start, arena, digit)
        total = 0.0
        for c in range(len(constants)):
            total += log_phi[g, constants[c]]
        possible = total > NEG_INF and scale_groups(num_groups, tables)
        if possible:
            n, _ = collect(zero, zero, budget, clusters, tables, work)
            possible = n >= 0
        if not possible:
            log_z[g] = NEG_INF
            p[g, :] = 0.0
            continue
        total += scale[0]
        for n in range(num_vars):
            total += scale[1 + n]
            if parent[n] < 0:
                value = arena[start[num_groups + n]]
                total += value if is_log[num_groups + n] else math.log(value)
        log_z[g] = total
        if with_p:
            distribute(np.int64(num_vars - 1), zero, budget, clusters, tables, work, p[g])
            normalise(state_start, dim, p[g])
            for k in range(len(slots)):
                entries[g, entry_of_slot[k]] = arena[slots[k]]
