# mypy: ignore-errors
"""The passes of an elimination for many rows of evidence on one model, `LANES` rows side by side.

The model was summed out once without evidence: `shared` holds its factors and messages, one number per entry. A message
that evidence below it changes is *touched* and holds one number per entry and lane, [entries, LANES]. A cluster
multiplies numbers that all rows share, one row of the cluster at a time, with lanes. Evidence on its own variable is a
mask of zeros and ones. A row of evidence then costs a few vector instructions per entry of touched clusters.

Sums are linear and scaled lane by lane, as in `elimination_kernels.py`. If products could be lost, a cluster computes
in logs. A row without support ends with ln Z = -inf and probabilities of zero.
"""

import math

from equifactor.kernels.fastmath import NEG_INF, bits_of, from_bits, get, put
from equifactor.kernels.jit import fast_kernel, inlined
from equifactor.kernels.lane_vectors import (
    LANES,
    add_lanes,
    dot_lanes,
    fill_lanes,
    multiply_lanes,
    scale_lanes,
    share_lanes,
    widen_lanes,
)
from equifactor.solvers.elimination.cluster_block import SAFE, advance
from equifactor.solvers.elimination.cluster_tables import WIDE, next_entry, to_log
from equifactor.solvers.elimination.elimination_kernels import LOG
from equifactor.solvers.elimination.program import Clusters, ClusterTables
from equifactor.solvers.elimination.row_records import RowAnswers, RowLanes

_LN2 = math.log(2.0)


@fast_kernel
def run_rows(states, constant, clusters, shared, lanes, answers):
    """Compute ln Z [B] for rows of evidence, states [B, v] by cluster and -1 where free, and the rest of `answers`.

    constant is added to every ln Z.
    """
    clusters, shared = Clusters(*clusters), ClusterTables(*shared)
    lanes, answers = RowLanes(*lanes), RowAnswers(*answers)
    seen, ln_z = lanes.seen, lanes.ln_z
    for first in range(0, len(states), LANES):
        count = min(LANES, len(states) - first)
        for n in range(len(clusters.dim)):
            for k in range(LANES):
                seen[n * LANES + k] = states[first + k, n] if k < count else -1
        for k in range(LANES):
            lanes.weight[k] = answers.weight[first + k] if k < count and len(answers.weight) > 0 else 0.0
        _touch(clusters, lanes)
        _collect_rows(constant, clusters, shared, lanes)
        for k in range(count):
            answers.log_z[first + k] = ln_z[k]
            if ln_z[k] == NEG_INF:  # its probabilities are zero, and its weight must not turn 0 * inf into a NaN
                lanes.weight[k] = 0.0
        _distribute_rows(first, count, clusters, shared, lanes, answers)


@fast_kernel
def _touch(clusters, lanes):
    """Mark the clusters with evidence on their own variable, and the messages that evidence changes."""
    parent, seen, observed, touched = clusters.parent, lanes.seen, lanes.observed, lanes.touched
    touched[:] = False
    for n in range(len(parent)):
        any_seen = False
        for k in range(LANES):
            any_seen |= seen[n * LANES + k] >= 0
        observed[n] = any_seen
        touched[n] |= any_seen
        if parent[n] >= 0:
            touched[parent[n]] |= touched[n]


@fast_kernel
def _collect_rows(constant, clusters, shared, lanes):
    """Run the upward pass through the touched clusters; ln Z of every lane goes to lanes.ln_z."""
    dim, parent = clusters.dim, clusters.parent
    num_groups = len(shared.size) - len(dim)
    in_ptr, in_op, sep_ptr, axis_dim = clusters.in_ptr, clusters.in_op, clusters.sep_ptr, clusters.axis_dim
    stride_ptr, strides = clusters.stride_ptr, clusters.strides
    arena, op_start, is_log = shared.arena, shared.start, shared.is_log
    up, start, buffer, ln_z, base, digit = lanes.up, lanes.start, lanes.buffer, lanes.ln_z, lanes.base, lanes.digit
    row, mask, touched = lanes.row, lanes.mask, lanes.touched
    total = constant + shared.scale[0]
    for n in range(len(dim)):
        if not touched[n]:
            total += shared.scale[1 + n]
            if parent[n] < 0:
                value = shared.arena[shared.start[num_groups + n]]
                total += value if is_log[num_groups + n] else math.log(value)
    ln_z[:] = total
    for n in range(len(dim)):
        if not touched[n]:
            continue
        d, size, width = dim[n], shared.size[num_groups + n], sep_ptr[n + 1] - sep_ptr[n]
        begin, num_in, masked = in_ptr[n], in_ptr[n + 1] - in_ptr[n], lanes.observed[n]
        lanes.mode[n] = _mode_of_rows(n, num_groups, clusters, shared, lanes)
        in_logs = lanes.mode[n] == LOG
        _open_rows(n, d, width, num_in, in_logs, lanes)
        out = start[n] * LANES
        for _ in range(size):
            _multiply_row(
                d, begin, begin + num_in, num_groups, in_logs, masked, in_op, arena, op_start, is_log, touched, row,
                base, up, start, mask, buffer,
            )  # fmt: skip
            if in_logs:
                _log_sum_row(d, buffer, up, out)
            else:
                fill_lanes(up, out, 0.0)
                for x in range(d):
                    add_lanes(up, out, buffer, x * LANES)
            out += LANES
            advance(n, width, num_in, sep_ptr, axis_dim, stride_ptr, strides, base, digit)
        lanes.is_log[n] = False
        if in_logs:
            _scale_log_rows(n, start[n] * LANES, size, lanes)
        else:
            _scale_rows(n, start[n] * LANES, size, up, lanes.low, ln_z, lanes.top)
        if parent[n] < 0:
            for k in range(LANES):
                value = up[start[n] * LANES + k]
                if lanes.is_log[n]:
                    ln_z[k] += value
                elif ln_z[k] > NEG_INF:
                    ln_z[k] += math.log(value)


@fast_kernel
def _mode_of_rows(n, num_groups, clusters, shared, lanes):
    """Return LOG if an operand is in logs or a product could be lost in a lane; then convert all touched operands."""
    in_op, first, last = clusters.in_op, clusters.in_ptr[n], clusters.in_ptr[n + 1]
    top, low = lanes.top, lanes.low
    in_logs = False
    fill_lanes(top, 0, 1.0)
    for r in range(first, last):
        op, c = in_op[r], in_op[r] - num_groups
        if c >= 0 and lanes.touched[c]:
            in_logs |= lanes.is_log[c]
            multiply_lanes(top, 0, low, c * LANES)
        else:
            in_logs |= shared.is_log[op]
            scale_lanes(top, 0, top, 0, shared.low[op])
    for k in range(LANES):
        in_logs |= not top[k] > SAFE
    for r in range(first, last if in_logs else first):
        c = in_op[r] - num_groups
        if c >= 0 and lanes.touched[c] and not lanes.is_log[c]:
            to_log(lanes.up, lanes.start[c] * LANES, shared.size[num_groups + c] * LANES)
            lanes.is_log[c] = True
    return LOG if in_logs else 0


@fast_kernel
def _open_rows(n, d, width, num_in, in_logs, lanes):
    """Go to the first row of cluster n, and build the mask of the evidence on its variable."""
    lanes.base[:num_in] = 0
    lanes.digit[:width] = 0
    seen, mask = lanes.seen, lanes.mask
    for x in range(d if lanes.observed[n] else 0):
        for k in range(LANES):
            allowed = seen[n * LANES + k] == x or seen[n * LANES + k] < 0
            mask[x * LANES + k] = (0.0 if allowed else NEG_INF) if in_logs else 1.0 if allowed else 0.0


@inlined
def _multiply_row(
    d, first, last, num_groups, in_logs, masked, in_op, arena, op_start, is_log, touched, row, base, up, start, mask,
    buffer,
):  # fmt: skip
    """Fill buffer [d, LANES] with the product of operands in_op[first:last] and the mask in one row of a cluster."""
    for x in range(d):
        put(row, x, 0.0 if in_logs else 1.0)
    for r in range(first, last):
        op = in_op[r]
        if op >= num_groups and touched[op - num_groups]:
            continue
        at = op_start[op] + base[r - first]
        for x in range(d):
            value = get(arena, at + x)
            if in_logs:
                put(row, x, get(row, x) + (value if is_log[op] else math.log(value) if value > 0.0 else NEG_INF))
            else:
                put(row, x, get(row, x) * value)
    begun = False
    for r in range(first, last):
        c = in_op[r] - num_groups
        if c < 0 or not touched[c]:
            continue
        at = (start[c] + base[r - first]) * LANES
        if in_logs:
            for x in range(0 if begun else d):
                fill_lanes(buffer, x * LANES, get(row, x))
            for x in range(d):
                add_lanes(buffer, x * LANES, up, at + x * LANES)
        elif begun:
            for x in range(d):
                multiply_lanes(buffer, x * LANES, up, at + x * LANES)
        else:
            for x in range(d):
                scale_lanes(buffer, x * LANES, up, at + x * LANES, get(row, x))
        begun = True
    for x in range(0 if begun else d):
        fill_lanes(buffer, x * LANES, get(row, x))
    for x in range(d if masked else 0):
        if in_logs:
            add_lanes(buffer, x * LANES, mask, x * LANES)
        else:
            multiply_lanes(buffer, x * LANES, mask, x * LANES)


@fast_kernel
def _log_sum_row(d, buffer, up, out):
    """Write the log of the sum over the states, lane by lane, into the message."""
    for k in range(LANES):
        top, total = NEG_INF, 0.0
        for x in range(d):
            top = max(top, buffer[x * LANES + k])
        for x in range(d if top > NEG_INF else 0):
            total += math.exp(buffer[x * LANES + k] - top)
        up[out + k] = top + math.log(total) if top > NEG_INF else NEG_INF


@fast_kernel
def _scale_rows(n, first, size, up, low, ln_z, top):
    """Divide every lane of a message by a power of two so that its largest entry is in [1/2, 1)."""
    least, factor = n * LANES, LANES
    fill_lanes(top, 0, 0.0)
    fill_lanes(low, least, 1.0e300)
    for t in range(size):
        widen_lanes(top, 0, low, least, up, first + t * LANES)
    for k in range(LANES):
        if top[k] == 0.0:
            ln_z[k], top[factor + k], low[least + k] = NEG_INF, 1.0, 1.0
            continue
        exponent = (bits_of(top[k]) >> 52) - 1022
        top[factor + k] = from_bits((1023 - exponent) << 52)
        low[least + k] *= top[factor + k]
        ln_z[k] += exponent * _LN2
    for t in range(size):
        multiply_lanes(up, first + t * LANES, top, factor)


@fast_kernel
def _scale_log_rows(n, first, size, lanes):
    """Subtract the largest entry from every lane of a log message; make it linear if the range of all lanes allows."""
    up, low, ln_z, top = lanes.up, lanes.low, lanes.ln_z, lanes.top
    widest = 0.0
    for k in range(LANES):
        largest, least = NEG_INF, 0.0
        for t in range(size):
            largest = max(largest, up[first + t * LANES + k])
        ln_z[k] += largest
        top[k] = largest if largest > NEG_INF else 0.0
        for t in range(size):
            gap = up[first + t * LANES + k] - top[k]
            if gap > NEG_INF:
                least = min(least, gap)
            up[first + t * LANES + k] = gap
        low[n * LANES + k] = math.exp(max(least, -WIDE))
        widest = min(widest, least)
    lanes.is_log[n] = widest < -WIDE
    for t in range(first, first + size * LANES if widest >= -WIDE else first):
        up[t] = math.exp(up[t])


@fast_kernel
def _distribute_rows(first, count, clusters, shared, lanes, answers):
    """Run the downward pass through the clusters that lead to wanted probabilities and expected factors.

    As in `distribute`, the probabilities P(s) of a separator and a cluster's own products give P(s, x).
    """
    dim, parent = clusters.dim, clusters.parent
    num_groups = len(shared.size) - len(dim)
    in_ptr, in_op, sep_ptr, axis_dim = clusters.in_ptr, clusters.in_op, clusters.sep_ptr, clusters.axis_dim
    stride_ptr, strides = clusters.stride_ptr, clusters.strides
    arena, op_start, is_log = shared.arena, shared.start, shared.is_log
    up, down, start, buffer, base, digit = lanes.up, lanes.down, lanes.start, lanes.buffer, lanes.base, lanes.digit
    row, mask, touched, top, p, weight = lanes.row, lanes.mask, lanes.touched, lanes.top, lanes.p, lanes.weight
    needed, p_start, expected = answers.needed, answers.p_start, answers.expected
    for n in range(len(dim) - 1, -1, -1):
        if not needed[n]:
            continue
        d, size, width = dim[n], shared.size[num_groups + n], sep_ptr[n + 1] - sep_ptr[n]
        begin, num_in, masked = in_ptr[n], in_ptr[n + 1] - in_ptr[n], lanes.observed[n]
        in_logs = (lanes.mode[n] if touched[n] else shared.mode[n]) == LOG
        _open_rows(n, d, width, num_in, in_logs, lanes)
        for x in range(d):
            fill_lanes(p, x * LANES, 0.0)
        for e in range(num_in):
            c = in_op[begin + e] - num_groups
            for t in range(shared.size[num_groups + c] if c >= 0 and needed[c] else 0):
                fill_lanes(down, (start[c] + t) * LANES, 0.0)
        for j in range(size):
            _multiply_row(
                d, begin, begin + num_in, num_groups, in_logs, masked, in_op, arena, op_start, is_log, touched, row,
                base, up, start, mask, buffer,
            )  # fmt: skip
            if in_logs:
                _exp_row(d, buffer)
            fill_lanes(top, 0, 0.0)
            for x in range(d):
                add_lanes(top, 0, buffer, x * LANES)
            if parent[n] < 0:
                fill_lanes(top, LANES, 1.0)
                share_lanes(top, 0, top, LANES)
            else:
                share_lanes(top, 0, down, (start[n] + j) * LANES)
            for x in range(d):
                multiply_lanes(buffer, x * LANES, top, 0)
                add_lanes(p, x * LANES, buffer, x * LANES)
            for e in range(num_in):
                c = in_op[begin + e] - num_groups
                if c >= 0 and needed[c]:
                    at = (start[c] + base[e]) * LANES
                    for x in range(d):
                        add_lanes(down, at + x * LANES, buffer, x * LANES)
            if len(expected) > 0:
                for x in range(d):
                    row[x] = dot_lanes(buffer, x * LANES, weight, 0)
                for e in range(num_in):
                    if in_op[begin + e] < num_groups:
                        at = op_start[in_op[begin + e]] + base[e]
                        for x in range(d):
                            put(expected, at + x, get(expected, at + x) + get(row, x))
            advance(n, width, num_in, sep_ptr, axis_dim, stride_ptr, strides, base, digit)
        if p_start[n] >= 0:
            _write_rows(first, count, p_start[n], d, p, answers.p)


@inlined
def _exp_row(d, buffer):
    """Turn a row of logs into numbers, every lane with a largest entry of 1 (or all zero)."""
    for k in range(LANES):
        top = NEG_INF
        for x in range(d):
            top = max(top, buffer[x * LANES + k])
        for x in range(d):
            gap = buffer[x * LANES + k] - top if top > NEG_INF else NEG_INF
            buffer[x * LANES + k] = math.exp(gap) if gap > NEG_INF else 0.0


@inlined
def _write_rows(first, count, to, d, p_lanes, p):
    """Write the probabilities of one variable, scaled to sum 1 again, into p[first:first+count, to:to+d]."""
    for k in range(count):
        total = 0.0
        for x in range(d):
            total += p_lanes[x * LANES + k]
        for x in range(d):
            p[first + k, to + x] = p_lanes[x * LANES + k] / total if total > 0.0 else 0.0


@fast_kernel
def unfold_groups(table, member_ptr, members, steps, step_ptr, table_ptr, axis_ptr, axis_dim, start, digit, expected):
    """Sum the numbers of each group's table into those of its factors, the inverse of `fill_groups`."""
    for g in range(len(member_ptr) - 1):
        first, num_axes = axis_ptr[g], axis_ptr[g + 1] - axis_ptr[g]
        size = 1
        for k in range(num_axes):
            size *= axis_dim[first + k]
        for m in range(member_ptr[g], member_ptr[g + 1]):
            digit[:num_axes] = 0
            at = table_ptr[members[m]]
            for t in range(start[g], start[g] + size):
                expected[at] += table[t]
                at = next_entry(at, num_axes - 1, first, axis_dim, step_ptr[m], steps, digit)
