# mypy: ignore-errors
"""Work on one block of a cluster's table: the rows over the cluster's own variable for some of its separator's states.

Rows are contiguous in every operand, so an operand needs one offset per row; those of the fastest axes are tabulated
once per cluster and shared by all its blocks. `buffer` holds the block, `rows` rows of `d` entries.
"""

import math

from equifactor.numerics.fastmath import MIN_EXP, exp_, get, put
from equifactor.numerics.jit import fast_kernel, reordering_kernel

NEG_INF = -math.inf
SAFE = 1e-280  # smallest positive product that is trusted: far from where numbers lose digits
BLOCK = 1024  # entries of a cluster worked on at a time: 8 KB, in the first cache
GENERAL, WHOLE, SINGLE = 0, 1, 2  # offsets of an operand within a block: any, those of the block itself, one row only


@fast_kernel
def block_shape(n, dim, sep_ptr, axis_dim):
    """Rows of a block of cluster n, the axis its rows begin at, and the number of blocks."""
    split, rows = sep_ptr[n + 1], 1
    while split > sep_ptr[n] and rows * axis_dim[split - 1] * dim[n] <= BLOCK:
        split -= 1
        rows *= axis_dim[split]
    blocks = 1
    for k in range(sep_ptr[n], split):
        blocks *= axis_dim[k]
    return rows, split - sep_ptr[n], blocks


@fast_kernel
def prepare(
    n,
    block,
    rows,
    split,
    dim,
    sep_ptr,
    axis_dim,
    in_ptr,
    in_op,
    stride_ptr,
    strides,
    op_start,
    offsets,
    kind,
    base,
    digit,
):
    """Offsets of all operands within a block; their places, and the digits of the outer axes, at a given block."""
    first, width = sep_ptr[n], sep_ptr[n + 1] - sep_ptr[n]
    d = dim[n]
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
        for k in range(width - 1, split - 1, -1):  # each axis repeats what the faster ones made
            for x in range(1, axis_dim[first + k]):
                for j in range(filled):
                    offsets[at + x * filled + j] = offsets[at + j] + x * strides[s + k]
            filled *= axis_dim[first + k]
        whole, single = True, True
        for j in range(rows):
            whole = whole and offsets[at + j] == j * d
            single = single and offsets[at + j] == 0
        kind[e] = SINGLE if single else WHOLE if whole else GENERAL


@fast_kernel
def advance(n, split, sep_ptr, axis_dim, num_in, stride_ptr, strides, base, digit):
    """Move to the next block."""
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
    """Linear product of the operands over one block into buffer [rows * d]."""
    for t in range(rows * d if num_in == 0 else 0):  # a variable without factors
        put(buffer, t, 1.0)
    for e in range(num_in):
        b, at = base[e], e * rows
        if kind[e] == WHOLE:
            if e == 0:
                for t in range(rows * d):
                    put(buffer, t, get(arena, b + t))
            else:
                for t in range(rows * d):
                    put(buffer, t, get(buffer, t) * get(arena, b + t))
        elif d == 2:
            if e == 0:
                for j in range(rows):
                    o = b + get(offsets, at + j)
                    put(buffer, 2 * j, get(arena, o))
                    put(buffer, 2 * j + 1, get(arena, o + 1))
            else:
                for j in range(rows):
                    o = b + get(offsets, at + j)
                    put(buffer, 2 * j, get(buffer, 2 * j) * get(arena, o))
                    put(buffer, 2 * j + 1, get(buffer, 2 * j + 1) * get(arena, o + 1))
        elif e == 0:
            for j in range(rows):
                o = b + get(offsets, at + j)
                for x in range(d):
                    put(buffer, j * d + x, get(arena, o + x))
        else:
            for j in range(rows):
                o = b + get(offsets, at + j)
                for x in range(d):
                    put(buffer, j * d + x, get(buffer, j * d + x) * get(arena, o + x))


@fast_kernel
def multiply_watched(num_in, rows, d, arena, offsets, base, buffer):
    """The same; returns how many positive products fell below SAFE."""
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
def add(num_in, rows, d, arena, offsets, kind, base, buffer):
    """Sum of log tables over one block."""
    for t in range(rows * d if num_in == 0 else 0):
        put(buffer, t, 0.0)
    for e in range(num_in):
        b, at = base[e], e * rows
        if kind[e] == WHOLE:
            if e == 0:
                for t in range(rows * d):
                    put(buffer, t, get(arena, b + t))
            else:
                for t in range(rows * d):
                    put(buffer, t, get(buffer, t) + get(arena, b + t))
        elif d == 2:
            if e == 0:
                for j in range(rows):
                    o = b + get(offsets, at + j)
                    put(buffer, 2 * j, get(arena, o))
                    put(buffer, 2 * j + 1, get(arena, o + 1))
            else:
                for j in range(rows):
                    o = b + get(offsets, at + j)
                    put(buffer, 2 * j, get(buffer, 2 * j) + get(arena, o))
                    put(buffer, 2 * j + 1, get(buffer, 2 * j + 1) + get(arena, o + 1))
        elif e == 0:
            for j in range(rows):
                o = b + get(offsets, at + j)
                for x in range(d):
                    put(buffer, j * d + x, get(arena, o + x))
        else:
            for j in range(rows):
                o = b + get(offsets, at + j)
                for x in range(d):
                    put(buffer, j * d + x, get(buffer, j * d + x) + get(arena, o + x))


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
    """The same for a block of logs."""
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
    """Rows of products into probabilities: each row is scaled to the probability of its separator states."""
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
    """Rows of logs into numbers, each with a largest entry of 1 (or all zero)."""
    for j in range(rows):
        top = NEG_INF
        for x in range(d):
            top = max(top, buffer[j * d + x])
        for x in range(d):
            gap = buffer[j * d + x] - top if top > NEG_INF else NEG_INF
            buffer[j * d + x] = exp_(gap) if gap > MIN_EXP else 0.0


@reordering_kernel
def add_rows(rows, d, buffer, p, first):
    """Add all rows to one."""
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
    """The best entry of each row into the message, and its first state into `choice`."""
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
