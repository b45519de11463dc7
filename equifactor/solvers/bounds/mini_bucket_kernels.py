# mypy: ignore-errors
"""Passes over weighted mini-buckets: the bound up to the roots, and its gradient on the way back.

A cluster sums its tables: factors, messages from below, and shifts that it shares with the other clusters of its
bucket. It eliminates its last axis by the powered sum m = w ln sum exp(T / w). A true zero is `HARD` inside: sums of
`HARD` stay finite, vanish in every exponential, and are recognised at the end.
"""

from typing import NamedTuple

import numpy as np

from equifactor.base.budget import EPS, OTHER_STEPS
from equifactor.base.typing import FloatArray, IntArray
from equifactor.kernels.fastmath import MIN_EXP, exp_, get, log_, put
from equifactor.kernels.jit import fast_kernel, inlined, reordering_kernel
from equifactor.solvers.elimination.cluster_block import BLOCK

HARD = -1e300  # The log of a true zero.
SOFTEST = -1e290  # A number below this contains the log of a true zero.
LARGEST_BLOCK = 16384  # Entries at a time if a block would otherwise have fewer than `_FEW` rows: 512 KiB of scratch.
# Rows of a block below which the block may be larger, because loops run over rows: 64 rows fill a vector of 8 numbers 8
# times.
_FEW = 64
_SCALAR, _ROW, _GATHER = 0, 1, 2  # An operand within a block is one number, a contiguous row, or looked up.


class Buckets(NamedTuple):
    """C clusters in the order of elimination; made by `bucket_partition`."""

    dim: IntArray  # [C] states of the variable that each cluster eliminates
    axis_ptr: IntArray  # [C+1] pointer to the axes of each cluster
    axis_dim: IntArray  # [axis_ptr[C]] states of each axis; the eliminated variable comes last
    table: IntArray  # [C+1] first entry of each cluster among those of all clusters
    message: IntArray  # [C] first entry of each message in `values`; minus `first_message`, that in `grad`
    message_size: IntArray  # [C] entries of each message
    in_ptr: IntArray  # [C+1] pointer to the operands of each cluster
    source: IntArray  # [in_ptr[C]] first entry of each operand in `values`
    sign: FloatArray  # [in_ptr[C]] the factor of an operand: its share, or -1 for a shift that is given away
    below: IntArray  # [in_ptr[C]] cluster that sends the operand, -1 for factors and shifts
    target: IntArray  # [in_ptr[C]] first entry of its gradient in `grad`, -1 for factors
    stride_ptr: IntArray  # [in_ptr[C]] pointer to the steps of each operand along the axes of the cluster
    strides: IntArray  # steps of the operands, found by `stride_ptr`
    length: IntArray  # [in_ptr[C]] entries of each operand


class Passing(NamedTuple):
    """The arrays of a pass."""

    values: FloatArray  # factors, messages, shifts
    grad: FloatArray  # probabilities: of messages, of shifts at the cluster that gets them, at the one that gives them
    p: FloatArray  # [table[C]] float32, probability of a state of the eliminated variable, given the others
    entropy: FloatArray  # [all messages] float32, the entropies of these probabilities
    weight: FloatArray  # [C]
    mean_entropy: FloatArray  # [C] the gradient of the bound with respect to the weight
    belief: FloatArray  # [C, widest] probabilities of the eliminated variable
    off: FloatArray  # [C] the largest possible rounding error of each message
    size: FloatArray  # [C] largest absolute value of each message
    block: FloatArray  # scratch: entries of a block, state by state of the eliminated variable
    rows: FloatArray  # scratch: [3, LARGEST_BLOCK]
    offsets: IntArray  # scratch: [operands, LARGEST_BLOCK] places of the rows of a block in each operand
    digit: IntArray  # scratch: states of the outer axes
    base: IntArray  # scratch: [operands]
    kind: IntArray  # scratch: [operands]


@inlined
def _inner_axes(first, last, axis_dim, d):
    """Return the first axis of a block and its rows, the joint states of inner axes; it has d entries per row."""
    at, rows = last, 1
    while at > first and d * rows * axis_dim[at - 1] <= (BLOCK if rows >= _FEW else LARGEST_BLOCK):
        at -= 1
        rows *= axis_dim[at]
    return at, rows


@inlined
def _prepare(c, first, inner_axis, last, buckets, state):
    """Compute the offsets of the rows of a block within each operand of cluster c, without its last axis."""
    axis_dim, strides, offsets = buckets.axis_dim, buckets.strides, state.offsets
    for i in range(buckets.in_ptr[c], buckets.in_ptr[c + 1]):
        o = i - buckets.in_ptr[c]
        s = buckets.stride_ptr[i] - first
        flat, row, run = True, True, 1
        for a in range(last - 1, inner_axis - 1, -1):
            flat = flat and strides[s + a] == 0
            row = row and strides[s + a] == run
            run *= axis_dim[a]
        state.kind[o] = _SCALAR if flat else _ROW if row else _GATHER
        if state.kind[o] == _GATHER:
            offsets[o, 0] = 0
            run = 1
            for a in range(last - 1, inner_axis - 1, -1):
                step = strides[s + a]
                for x in range(1, axis_dim[a]):
                    for k in range(run):
                        offsets[o, x * run + k] = offsets[o, k] + x * step
                run *= axis_dim[a]
    for a in range(first, inner_axis):
        state.digit[a - first] = 0


@inlined
def _advance(c, first, inner_axis, buckets, state):
    """Move the outer axes to their next states, and the operands with them."""
    axis_dim, strides, digit, base = buckets.axis_dim, buckets.strides, state.digit, state.base
    first_in, last_in = buckets.in_ptr[c], buckets.in_ptr[c + 1]
    a = inner_axis - 1
    while a >= first:
        digit[a - first] += 1
        if digit[a - first] < axis_dim[a]:
            for i in range(first_in, last_in):
                base[i - first_in] += strides[buckets.stride_ptr[i] - first + a]
            break
        digit[a - first] = 0
        for i in range(first_in, last_in):
            base[i - first_in] -= (axis_dim[a] - 1) * strides[buckets.stride_ptr[i] - first + a]
        a -= 1


@fast_kernel
def pass_up(start, stop, buckets, state):
    """Compute the messages of the clusters from `start` to `stop`, and the numbers that the pass down needs."""
    buckets, state = Buckets(*buckets), Passing(*state)
    for c in range(start, stop):
        _collect(c, buckets, state)


@inlined
def _collect(c, buckets, state):
    values, block = state.values, state.block
    first, last = buckets.axis_ptr[c], buckets.axis_ptr[c + 1] - 1
    first_in, last_in = buckets.in_ptr[c], buckets.in_ptr[c + 1]
    d, w = buckets.dim[c], state.weight[c]
    inner_axis, rows = _inner_axes(first, last, buckets.axis_dim, d)
    _prepare(c, first, inner_axis, last, buckets, state)
    for i in range(first_in, last_in):
        state.base[i - first_in] = buckets.source[i]
    out, table = buckets.message[c], buckets.table[c]
    largest = 0.0
    for n in range((buckets.table[c + 1] - table) // (d * rows)):
        if n > 0:
            _advance(c, first, inner_axis, buckets, state)
        for k in range(d * rows):
            put(block, k, 0.0)
        for i in range(first_in, last_in):
            o = i - first_in
            step = buckets.strides[buckets.stride_ptr[i] + last - first]
            for x in range(d):
                _add_operand(o, x * rows, rows, state.base[o] + x * step, buckets.sign[i], state)
        if d == 2:
            top = _sum_pairs(rows, w, table, out, out - buckets.message[0], state)
        else:
            top = _sum_states(rows, d, w, table, out, out - buckets.message[0], state)
        largest = max(largest, top)
        table += d * rows
        out += rows
    off, size = 0.0, 0.0
    for i in range(first_in, last_in):
        top = 0.0
        if buckets.below[i] >= 0:
            off += state.off[buckets.below[i]]
            top = state.size[buckets.below[i]]
        else:
            for t in range(buckets.source[i], buckets.source[i] + buckets.length[i]):
                v = get(values, t)
                top = max(top, abs(v) if v > SOFTEST else 0.0)
        size += top
    state.size[c] = largest
    state.off[c] = off + EPS * ((last_in - first_in + 2) * size + d + OTHER_STEPS + 2.0 * largest)


@inlined
def _add_operand(o, at, rows, base, sign, state):
    """Add one operand to the rows of a block that begin at `at`."""
    block, values, offsets = state.block, state.values, state.offsets
    if state.kind[o] == _SCALAR:
        v = sign * values[base]
        for k in range(rows):
            put(block, at + k, get(block, at + k) + v)
    elif state.kind[o] == _ROW:
        for k in range(rows):
            put(block, at + k, get(block, at + k) + sign * get(values, base + k))
    else:
        row = offsets[o]
        for k in range(rows):
            put(block, at + k, get(block, at + k) + sign * get(values, base + get(row, k)))


@inlined
def _sum_pairs(rows, w, table, out, at_entropy, state):
    """Compute powered sums of a block over a variable of two states; return the largest absolute value.

    Each loop uses at most three arrays: with more, LLVM cannot prove that they do not overlap, and does not vectorise.
    """
    values, block, p, entropy, spread = state.values, state.block, state.p, state.entropy, state.rows[0]
    inverse = 1.0 / w
    for k in range(rows):
        x, y = get(block, k), get(block, rows + k)
        high = max(x, y)
        gap = max((min(x, y) - high) * inverse, MIN_EXP)
        e = exp_(gap)
        log_sum = log_(1.0 + e)
        share = 1.0 / (1.0 + e)
        rest = e * share
        put(block, k, share if x >= y else rest)
        put(block, rows + k, high + w * log_sum)
        put(spread, k, log_sum - gap * rest)
    for k in range(rows):
        put(p, table + k, np.float32(get(block, k)))
    for k in range(rows):
        put(p, table + rows + k, np.float32(1.0 - get(block, k)))
    for k in range(rows):
        put(entropy, at_entropy + k, np.float32(get(spread, k)))
    largest = 0.0
    for k in range(rows):
        m = get(block, rows + k)
        put(values, out + k, m)
        largest = max(largest, abs(m) if m > SOFTEST else 0.0)
    return largest


@inlined
def _sum_states(rows, d, w, table, out, at_entropy, state):
    """Compute powered sums of a block over a variable of d states; return the largest absolute value."""
    values, block, p, entropy = state.values, state.block, state.p, state.entropy
    high, total, mean = state.rows[0], state.rows[1], state.rows[2]
    inverse = 1.0 / w
    largest = 0.0
    for k in range(rows):
        put(high, k, get(block, k))
        put(total, k, 0.0)
        put(mean, k, 0.0)
    for x in range(1, d):
        for k in range(rows):
            put(high, k, max(get(high, k), get(block, x * rows + k)))
    for x in range(d):
        for k in range(rows):
            gap = max((get(block, x * rows + k) - get(high, k)) * inverse, MIN_EXP)
            e = exp_(gap)
            put(total, k, get(total, k) + e)
            put(mean, k, get(mean, k) + e * gap)
            put(block, x * rows + k, e)
    for x in range(d):
        for k in range(rows):
            put(p, table + x * rows + k, np.float32(get(block, x * rows + k) / get(total, k)))
    for k in range(rows):
        log_sum = log_(get(total, k))
        m = get(high, k) + w * log_sum
        put(values, out + k, m)
        put(entropy, at_entropy + k, np.float32(log_sum - get(mean, k) / get(total, k)))
        largest = max(largest, abs(m) if m > SOFTEST else 0.0)
    return largest


@reordering_kernel
def pass_down(start, stop, buckets, state):
    """Compute probabilities of messages and shifts, down from the roots: clusters `start`, `start` - 1, .., `stop` + 1.

    Before the call, the gradient of messages must be one at the roots and zero elsewhere.
    """
    buckets, state = Buckets(*buckets), Passing(*state)
    for c in range(start, stop, -1):
        _distribute(c, buckets, state)


@inlined
def _distribute(c, buckets, state):
    block, grad, p, entropy = state.block, state.grad, state.p, state.entropy
    first, last = buckets.axis_ptr[c], buckets.axis_ptr[c + 1] - 1
    first_in, last_in = buckets.in_ptr[c], buckets.in_ptr[c + 1]
    d = buckets.dim[c]
    inner_axis, rows = _inner_axes(first, last, buckets.axis_dim, d)
    _prepare(c, first, inner_axis, last, buckets, state)
    for i in range(first_in, last_in):
        state.base[i - first_in] = buckets.target[i]
    table, above = buckets.table[c], buckets.message[c] - buckets.message[0]
    mean = 0.0
    for x in range(d):
        state.belief[c, x] = 0.0
    for n in range((buckets.table[c + 1] - table) // (d * rows)):
        if n > 0:
            _advance(c, first, inner_axis, buckets, state)
        for k in range(rows):
            mean += get(grad, above + k) * get(entropy, above + k)
        for x in range(d):
            total = 0.0
            for k in range(rows):
                b = get(grad, above + k) * get(p, table + x * rows + k)
                put(block, x * rows + k, b)
                total += b
            state.belief[c, x] += total
        for i in range(first_in, last_in):
            if buckets.target[i] >= 0:
                o = i - first_in
                step = buckets.strides[buckets.stride_ptr[i] + last - first]
                for x in range(d):
                    _give_operand(o, x * rows, rows, state.base[o] + x * step, state)
        table += d * rows
        above += rows
    state.mean_entropy[c] = mean


@inlined
def _give_operand(o, at, rows, base, state):
    """Add some rows of probabilities to the gradient of one operand."""
    block, grad, offsets = state.block, state.grad, state.offsets
    if state.kind[o] == _SCALAR:
        total = 0.0
        for k in range(rows):
            total += get(block, at + k)
        grad[base] += total
    elif state.kind[o] == _ROW:
        for k in range(rows):
            put(grad, base + k, get(grad, base + k) + get(block, at + k))
    else:
        row = offsets[o]
        for k in range(rows):
            to = base + get(row, k)
            put(grad, to, get(grad, to) + get(block, at + k))
