# mypy: ignore-errors
"""The passes of an elimination over its clusters, block by block: a cluster table is never held as a whole.

Every cluster multiplies its operands (see `kernels.program`) and removes its own variable. Sums are taken in the linear
domain, every message scaled to a largest entry in [1/2, 1). Products of non-negative numbers lose nothing but range, so
they are watched: where a positive product falls below `SAFE`, the cluster is counted again in the log domain, and its
message stays there until its range allows otherwise. Both give the same digits.

Each pass runs for about `budget` operations and returns where it got, so that the caller can look at the clock.
"""

import math

import numpy as np

from equifactor.numerics.jit import fast_kernel
from equifactor.solvers.elimination.cluster_block import (
    SAFE,
    add,
    add_rows,
    advance,
    best_of_rows,
    block_shape,
    condition,
    exp_rows,
    log_sum_rows,
    multiply,
    multiply_watched,
    prepare,
    scatter,
    sum_rows,
)
from equifactor.solvers.elimination.cluster_tables import scale_linear, scale_log, to_log

NEG_INF = -math.inf
LINEAR, WATCHED, LOG = 0, 1, 2  # how a cluster is counted


@fast_kernel
def _choose_mode(n, in_ptr, in_op, is_log, low):
    """Linear while no product can be lost; watched when one could; log when an operand is."""
    least = 1.0
    for r in range(in_ptr[n], in_ptr[n + 1]):
        if is_log[in_op[r]]:
            return LOG
        least *= low[in_op[r]]
    return LINEAR if least > SAFE else WATCHED


@fast_kernel
def _all_to_log(n, in_ptr, in_op, op_start, op_size, arena, is_log):
    for r in range(in_ptr[n], in_ptr[n + 1]):
        op = in_op[r]
        if not is_log[op]:
            to_log(arena, op_start[op], op_size[op])
            is_log[op] = True


@fast_kernel
def collect(
    n, block, budget, dim, sep_ptr, axis_dim, in_ptr, in_op, stride_ptr, strides, op_start, op_size, arena, is_log, low,
    mode, scale, buffer, offsets, kind, base, digit,
):  # fmt: skip
    """Upward pass from block `block` of cluster n: messages into the arena, what was divided out into scale [1+v].

    Returns the next cluster and block, or (-1, 0) when the sum of all scores is zero.
    """
    num_vars = len(dim)
    num_groups = len(op_size) - num_vars
    spent = 0
    while n < num_vars and spent < budget:
        d, num_in = dim[n], in_ptr[n + 1] - in_ptr[n]
        rows, split, blocks = block_shape(n, dim, sep_ptr, axis_dim)
        if block == 0 and mode[n] != LOG:
            mode[n] = _choose_mode(n, in_ptr, in_op, is_log, low)
        if block == 0 and mode[n] == LOG:
            _all_to_log(n, in_ptr, in_op, op_start, op_size, arena, is_log)
        prepare(
            n, block, rows, split, dim, sep_ptr, axis_dim, in_ptr, in_op, stride_ptr, strides, op_start, offsets, kind,
            base, digit,
        )  # fmt: skip
        op = num_groups + n
        out = op_start[op]
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
            advance(n, split, sep_ptr, axis_dim, num_in, stride_ptr, strides, base, digit)
            block += 1
            spent += rows * d * (num_in + 1)
        if lost > 0:
            mode[n] = LOG
            block = 0
        elif block == blocks:
            if mode[n] == LOG:
                taken = scale_log(arena, out, op_size[op], op, is_log, low)
            else:
                taken = scale_linear(arena, out, op_size[op], op, is_log, low)
            if taken == NEG_INF:
                return -1, 0
            scale[1 + n] = taken
            n += 1
            block = 0
    return n, block


@fast_kernel
def distribute(
    n, block, budget, dim, sep_ptr, axis_dim, in_ptr, in_op, stride_ptr, strides, op_start, op_size, arena, mode,
    state_start, p, scratch, scratch_start, buffer, offsets, kind, base, digit,
):  # fmt: skip
    """Downward pass from block `block` of cluster n to cluster 0: probabilities of every state into p [x].

    A message slot is overwritten by the probabilities of its separator. With those, P(s), a cluster's own products give
    P(s, x) = P(s) q(s, x) / sum_x q(s, x): nothing is divided by a message, and what underflows has no probability.
    """
    num_vars = len(dim)
    num_groups = len(op_size) - num_vars
    spent = 0
    while n >= 0 and spent < budget:
        d, num_in = dim[n], in_ptr[n + 1] - in_ptr[n]
        rows, split, blocks = block_shape(n, dim, sep_ptr, axis_dim)
        prepare(
            n, block, rows, split, dim, sep_ptr, axis_dim, in_ptr, in_op, stride_ptr, strides, op_start, offsets, kind,
            base, digit,
        )  # fmt: skip
        above = op_start[num_groups + n]
        first_state = state_start[n]
        if block == 0:
            if sep_ptr[n + 1] == sep_ptr[n]:
                arena[above] = 1.0
            for x in range(d):
                p[first_state + x] = 0.0
            end = 0
            for e in range(num_in):
                op = in_op[in_ptr[n] + e]
                scratch_start[e] = end
                if op >= num_groups:
                    for t in range(end, end + op_size[op]):
                        scratch[t] = 0.0
                    end += op_size[op]
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
                    to = scratch_start[e] + base[e] - op_start[op]
                    scatter(rows, d, buffer, scratch, to, offsets, e * rows, kind[e])
            advance(n, split, sep_ptr, axis_dim, num_in, stride_ptr, strides, base, digit)
            block += 1
            spent += 2 * rows * d * (num_in + 1)
        if block == blocks:
            for e in range(num_in):
                op = in_op[in_ptr[n] + e]
                if op >= num_groups:
                    for t in range(op_size[op]):
                        arena[op_start[op] + t] = scratch[scratch_start[e] + t]
            n -= 1
            block = 0
    return n, block


@fast_kernel
def maximise(
    n, block, budget, dim, sep_ptr, axis_dim, in_ptr, in_op, stride_ptr, strides, op_start, op_size, arena, choice,
    choice_start, buffer, offsets, kind, base, digit,
):  # fmt: skip
    """Upward pass for the best score, from block `block` of cluster n: the best state of each row into `choice`."""
    num_vars = len(dim)
    num_groups = len(op_size) - num_vars
    spent = 0
    while n < num_vars and spent < budget:
        d, num_in = dim[n], in_ptr[n + 1] - in_ptr[n]
        rows, split, blocks = block_shape(n, dim, sep_ptr, axis_dim)
        prepare(
            n, block, rows, split, dim, sep_ptr, axis_dim, in_ptr, in_op, stride_ptr, strides, op_start, offsets, kind,
            base, digit,
        )  # fmt: skip
        out = op_start[num_groups + n]
        while block < blocks and spent < budget:
            add(num_in, rows, d, arena, offsets, kind, base, buffer)
            best_of_rows(rows, d, buffer, arena, out + block * rows, choice, choice_start[n] + block * rows)
            advance(n, split, sep_ptr, axis_dim, num_in, stride_ptr, strides, base, digit)
            block += 1
            spent += rows * d * (num_in + 1)
        if block == blocks:
            n += 1
            block = 0
    return n, block


@fast_kernel
def trace_back(dim, sep_ptr, sep, choice, choice_start):
    """Best state of every cluster's variable, from the roots down."""
    states = np.zeros(len(dim), np.int64)
    for n in range(len(dim) - 1, -1, -1):
        row = 0
        for r in range(sep_ptr[n], sep_ptr[n + 1]):
            row = row * dim[sep[r]] + states[sep[r]]
        states[n] = choice[choice_start[n] + row]
    return states
