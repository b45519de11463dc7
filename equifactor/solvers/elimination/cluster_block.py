# mypy: ignore-errors
"""Work on one block of a cluster's table: the rows over the cluster's own variable for some of its separator's states.

Rows are contiguous in every operand, so an operand needs one offset per row. The offsets of the fastest axes are
computed once per cluster and shared by all its blocks. `buffer` holds one block, `rows` rows of `d` entries.

These functions run once per block or cluster and take single arrays. A record of arrays, which the passes take, costs
two reference counts per field and call, a fifth of the time of small models.
"""

import math

from equifactor.kernels.fastmath import MIN_EXP, NEG_INF, exp_, get, put
from equifactor.kernels.jit import fast_kernel, inlined, reordering_kernel

SAFE = 1e-280  # the smallest positive product that is trusted, far above where numbers lose digits
BLOCK = 1024  # most entries of a block: 8 KB stay in the first cache

# The offsets of an operand within a block: arbitrary, those of the block itself, or all zero (a single row).
GENERAL, WHOLE, SINGLE = 0, 1, 2


@fast_kernel
def open_cluster(
    n, block, dim, sep_ptr, axis_dim, in_ptr, in_op, stride_ptr, strides, op_start, offsets, kind, base, digit
):  # fmt: skip
    """Prepare the workspace for cluster n, from the given block on.

    Computes the offsets of all operands within a block, and sets their places and the digits of the outer axes.
    Returns the rows of a block, the number of axes outside a block, and the number of blocks.
    """
    first, width, d = sep_ptr[n], sep_ptr[n + 1] - sep_ptr[n], dim[n]
    rows, split, blocks = _block_shape(first, width, d, axis_dim)
    rest = block
    for k in range(split - 1, -1, -1):
        digit[k] = rest % axis_dim[first + k]
        rest //= axis_dim[first + k]
    for e in range(in_ptr[n + 1] - in_ptr[n]):
        s = stride_ptr[n] + e * width
        base[e] = op_start[in_op[in_ptr[n] + e]]
        for k in range(split):
            base[e] += digit[k] * strides[s + k]
        at = e * rows
        offsets[at] = 0
        filled = 1
        for k in range(width - 1, split - 1, -1):  # each axis repeats the offsets of the faster axes
            for x in range(1, axis_dim[first + k]):
                for j in range(filled):
                    offsets[at + x * filled + j] = offsets[at + j] + x * strides[s + k]
            filled *= axis_dim[first + k]
        kind[e] = _kind_of_offsets(offsets, at, rows, d)
    return rows, split, blocks


@inlined
def _block_shape(first, width, d, axis_dim):
    split, rows = width, 1
    while split > 0 and rows * axis_dim[first + split - 1] * d <= BLOCK:
        split -= 1
        rows *= axis_dim[first + split]
    blocks = 1
    for k in range(split):
        blocks *= axis_dim[first + k]
    return rows, split, blocks


@inlined
def _kind_of_offsets(offsets, at, rows, d):
    whole, single = True, True
    for j in range(rows):
        whole = whole and offsets[at + j] == j * d
        single = single and offsets[at + j] == 0
    return SINGLE if single else WHOLE if whole else GENERAL


@fast_kernel
def advance(n, split, num_in, sep_ptr, axis_dim, stride_ptr, strides, base, digit):
    """Move to the next block of cluster n."""
    first, width = sep_ptr[n], sep_ptr[n + 1] - sep_ptr[n]
    k = split - 1
    while k >= 0:
        digit[k] += 1
        back = 0 if digit[k] < axis_dim[first + k] else digit[k]
        for e in range(num_in):
            s = strides[stride_ptr[n] + e * width + k]
            base[e] += s - back * s
        if back == 0:
            return
        digit[k] = 0
        k -= 1


@fast_kernel
def multiply(num_in, rows, d, arena, offsets, kind, base, buffer):
    """Fill buffer [rows * d] with the linear product of the operands over one block."""
    _combine(False, num_in, rows, d, arena, offsets, kind, base, buffer)


@fast_kernel
def add(num_in, rows, d, arena, offsets, kind, base, buffer):
    """Fill buffer [rows * d] with the sum of the operands, which are log tables, over one block."""
    _combine(True, num_in, rows, d, arena, offsets, kind, base, buffer)


@inlined
def _combine(is_log, num_in, rows, d, arena, offsets, kind, base, buffer):
    """Do the work of `multiply` and `add`: `is_log` is a constant, so that the machine code has no branch for it."""
    for t in range(rows * d if num_in == 0 else 0):  # the variable has no factors
        put(buffer, t, 0.0 if is_log else 1.0)
    if num_in > 0:
        _copy_rows(rows, d, arena, buffer, offsets, base[0], kind[0])
    for e in range(1, num_in):
        b, at = base[e], e * rows
        if kind[e] == WHOLE:
            for t in range(rows * d):
                put(buffer, t, _joined(is_log, get(buffer, t), get(arena, b + t)))
        elif d == 2:
            for j in range(rows):
                o = b + get(offsets, at + j)
                put(buffer, 2 * j, _joined(is_log, get(buffer, 2 * j), get(arena, o)))
                put(buffer, 2 * j + 1, _joined(is_log, get(buffer, 2 * j + 1), get(arena, o + 1)))
        else:
            for j in range(rows):
                o = b + get(offsets, at + j)
                for x in range(d):
                    put(buffer, j * d + x, _joined(is_log, get(buffer, j * d + x), get(arena, o + x)))


@inlined
def _joined(is_log, before, factor):
    return before + factor if is_log else before * factor


@inlined
def _copy_rows(rows, d, arena, buffer, offsets, b, kind):
    """Copy the first operand over one block into the buffer."""
    if kind == WHOLE:
        for t in range(rows * d):
            put(buffer, t, get(arena, b + t))
    elif d == 2:
        for j in range(rows):
            o = b + get(offsets, j)
            put(buffer, 2 * j, get(arena, o))
            put(buffer, 2 * j + 1, get(arena, o + 1))
    else:
        for j in range(rows):
            o = b + get(offsets, j)
            for x in range(d):
                put(buffer, j * d + x, get(arena, o + x))


@fast_kernel
def multiply_watched(num_in, rows, d, arena, offsets, base, buffer):
    """Multiply like `multiply`, and return how many positive products fell below SAFE."""
    lost = 0
    for e in range(num_in):
        for j in range(rows):
            o = base[e] + offsets[e * rows + j]
            for x in range(d):
                factor = arena[o + x]
                before = 1.0 if e == 0 else buffer[j * d + x]
                product = before * factor
                lost += (product < SAFE) & (before > 0.0) & (factor > 0.0)
                buffer[j * d + x] = product
    return lost


@fast_kernel
def sum_rows(rows, d, buffer, arena, out):
    """Sum each row of the block into the message."""
    if d == 2:
        for j in range(rows):
            put(arena, out + j, get(buffer, 2 * j) + get(buffer, 2 * j + 1))
        return
    for j in range(rows):
        total = 0.0
        for x in range(d):
            total += get(buffer, j * d + x)
        put(arena, out + j, total)


@fast_kernel
def log_sum_rows(rows, d, buffer, arena, out):
    """Write the log of the sum of each row of a block of logs into the message."""
    for j in range(rows):
        top = NEG_INF
        for x in range(d):
            top = max(top, buffer[j * d + x])
        total = 0.0
        if top > NEG_INF:
            for x in range(d):
                total += exp_(max(buffer[j * d + x] - top, MIN_EXP))
        arena[out + j] = top + math.log(total) if top > NEG_INF else NEG_INF


@fast_kernel
def condition(rows, d, arena, above, buffer):
    """Turn rows of products into probabilities: scale each row to the probability of its separator states."""
    if d == 2:
        for j in range(rows):
            total = get(buffer, 2 * j) + get(buffer, 2 * j + 1)
            factor = get(arena, above + j) / (total if total > 0.0 else 1.0)
            put(buffer, 2 * j, get(buffer, 2 * j) * factor)
            put(buffer, 2 * j + 1, get(buffer, 2 * j + 1) * factor)
        return
    for j in range(rows):
        total = 0.0
        for x in range(d):
            total += get(buffer, j * d + x)
        factor = get(arena, above + j) / (total if total > 0.0 else 1.0)
        for x in range(d):
            put(buffer, j * d + x, get(buffer, j * d + x) * factor)


@fast_kernel
def exp_rows(rows, d, buffer):
    """Turn rows of logs into numbers, each row with a largest entry of 1 (or all zero)."""
    for j in range(rows):
        top = NEG_INF
        for x in range(d):
            top = max(top, buffer[j * d + x])
        for x in range(d):
            gap = buffer[j * d + x] - top if top > NEG_INF else NEG_INF
            buffer[j * d + x] = exp_(gap) if gap > MIN_EXP else 0.0


@reordering_kernel
def add_rows(rows, d, buffer, p, first):
    """Add all rows of the block to the one row p[first:first+d]."""
    if d == 2:
        zero, one = 0.0, 0.0
        for j in range(rows):
            zero += get(buffer, 2 * j)
            one += get(buffer, 2 * j + 1)
        p[first] += zero
        p[first + 1] += one
        return
    for j in range(rows):
        for x in range(d):
            put(p, first + x, get(p, first + x) + get(buffer, j * d + x))


@fast_kernel
def scatter(rows, d, buffer, scratch, to, offsets, at, kind):
    """Add the block to the probabilities of a child's separator."""
    if kind == SINGLE:
        add_rows(rows, d, buffer, scratch, to)
    elif kind == WHOLE:
        for t in range(rows * d):
            put(scratch, to + t, get(scratch, to + t) + get(buffer, t))
    elif d == 2:
        for j in range(rows):
            o = to + get(offsets, at + j)
            put(scratch, o, get(scratch, o) + get(buffer, 2 * j))
            put(scratch, o + 1, get(scratch, o + 1) + get(buffer, 2 * j + 1))
    else:
        for j in range(rows):
            o = to + get(offsets, at + j)
            for x in range(d):
                put(scratch, o + x, get(scratch, o + x) + get(buffer, j * d + x))


@fast_kernel
def best_of_rows(rows, d, buffer, arena, out, choice, to):
    """Write the best entry of each row into the message, and the first state that has it into `choice`."""
    if d == 2:
        for j in range(rows):
            zero, one = get(buffer, 2 * j), get(buffer, 2 * j + 1)
            put(arena, out + j, max(zero, one))
            choice[to + j] = one > zero
        return
    for j in range(rows):
        best, top = 0, buffer[j * d]
        for x in range(1, d):
            if buffer[j * d + x] > top:
                best, top = x, buffer[j * d + x]
        arena[out + j] = top
        choice[to + j] = best
