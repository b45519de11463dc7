# mypy: ignore-errors
"""Sum-product messages of pairwise factors of one shape, four factors at a time.

The length of a row of a table is rarely a multiple of the vector width. Four tables laid out entry by entry always are:
the four lanes of a vector are four factors, and no sum runs across lanes. On 11 x 11 tables this is twice as fast as
one factor after another. The last block of a group repeats its last factor.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equifactor.kernels.fastmath import get, put
from equifactor.kernels.jit import fast_kernel, inlined
from equifactor.kernels.vectors import vector_operations

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FlatGraph

LANES = 4  # Factors that are updated side by side: the doubles of one 256-bit vector.
_OPS = vector_operations("float64", LANES)
load, store, filled, transposed = _OPS.load, _OPS.store, _OPS.filled, _OPS.transposed
add, multiply, multiply_add, divide, minimum = _OPS.add, _OPS.multiply, _OPS.multiply_add, _OPS.divide, _OPS.minimum
TINIEST = 1e-305  # a lower bound on every sum except 0: messages are above e^-350 and tables above e^-300

# Columns of Lanes.groups: first factor in flat order, number of factors, states of both slots, first edge state of both
# slots, first entry in `blocks`.
FACTOR, COUNT, CARD_0, CARD_1, MSG_0, MSG_1, BLOCK = range(7)


class Lanes(NamedTuple):
    """Linear tables: pairwise factors in groups of one shape, and the factors outside the groups."""

    groups: IntArray  # [N, 7] FACTOR .. BLOCK of each group
    # entry t of lane k of block n of a group is at (n d0 d1 + t) 4 + k after the group's first entry
    blocks: FloatArray
    others: IntArray  # flat numbers of the factors of arity 2 or more outside the groups
    phi: FloatArray  # [T] linear tables in flat order, used for the others


def lanes_of(flat: FlatGraph[np.ndarray], phi: FloatArray) -> Lanes:
    """Return groups of at least four pairwise factors, with their linear tables phi [T] in blocks of four."""
    groups: list[tuple[int, ...]] = []
    others: list[IntArray] = [np.zeros(0, np.int64)]
    in_blocks = [len(g.shape) == 2 and g.num_factors >= LANES for g in flat.groups]
    pairs = [g for g, is_in in zip(flat.groups, in_blocks, strict=True) if is_in]
    blocks = np.empty(sum(-(-g.num_factors // LANES) * LANES * math.prod(g.shape) for g in pairs))
    factor = begin = 0
    for group, is_in in zip(flat.groups, in_blocks, strict=True):
        count, size = group.num_factors, math.prod(group.shape)
        if is_in:
            groups.append((factor, count, *group.shape, group.slots[0].start, group.slots[1].start, begin))
            table = phi[group.entries].reshape(count, size)
            whole, left = divmod(count, LANES)
            end = begin + whole * LANES * size
            blocks[begin:end].reshape(whole, size, LANES)[:] = (
                table[: whole * LANES].reshape(whole, LANES, size).swapaxes(1, 2)
            )
            if left:
                padded = np.minimum(np.arange(whole * LANES, (whole + 1) * LANES), count - 1)
                begin, end = end, end + LANES * size
                blocks[begin:end].reshape(size, LANES)[:] = table[padded].T
            begin = end
        elif len(group.shape) > 1:
            others.append(np.arange(factor, factor + count))
        factor += count
    return Lanes(np.array(groups, np.int64).reshape(-1, 7), blocks, np.concatenate(others), phi)


@fast_kernel
def sum_in_lanes(groups, blocks, wide, q, out, least):
    """Fill `out` with normalised linear messages of all factors of the groups; the caller does the other factors.

    Args:
        groups: [N, 7] see `Lanes`.
        blocks: the linear tables of the groups, see `Lanes`.
        wide: [F] whether the products of a table may underflow.
        q: [S] linear incoming messages.
        out: [S] filled; the first entry of a factor whose messages may have lost mass to underflow is -1.
        least: entries below this may have lost mass to underflow.

    Returns:
        the number of factors marked by -1.
    """
    widest = 1
    for g in range(len(groups)):
        widest = max(widest, groups[g, CARD_0], groups[g, CARD_1])
    work = np.empty((4, LANES * widest))
    q0, q1, out0, out1 = work[0], work[1], work[2], work[3]
    smallest, scales = np.empty(LANES), np.empty(LANES)
    num_spoilt = 0
    for g in range(len(groups)):
        d0, d1 = groups[g, CARD_0], groups[g, CARD_1]
        last = groups[g, COUNT] - 1
        for f in range(0, last + 1, LANES):
            _take(q, groups[g, MSG_0], d0, f, last, q0)
            _take(q, groups[g, MSG_1], d1, f, last, q1)
            _multiply(blocks, groups[g, BLOCK] + f * d0 * d1, d0, d1, q0, q1, out0, out1)
            smallest[:] = math.inf
            scales[:] = math.inf
            _give(out, groups[g, MSG_0], d0, f, last, out0, smallest, scales)
            _give(out, groups[g, MSG_1], d1, f, last, out1, smallest, scales)
            for k in range(min(LANES, last + 1 - f)):
                if smallest[k] < least or scales[k] < 1e10 * TINIEST or wide[groups[g, FACTOR] + f + k]:
                    num_spoilt += 1
                    put(out, groups[g, MSG_0] + (f + k) * d0, -1.0)
    return num_spoilt


@inlined
def _multiply(blocks, t, d0, d1, q0, q1, out0, out1):
    """Multiply rows by q1 and columns by q0, reading each entry of the four tables once."""
    for y in range(0, LANES * d1, LANES):
        store(out1, y, filled(0.0))
    for x in range(0, LANES * d0, LANES):
        weight = load(q0, x)
        dot = filled(0.0)
        for y in range(0, LANES * d1, LANES):
            entries = load(blocks, t)
            t += LANES
            dot = multiply_add(entries, load(q1, y), dot)
            store(out1, y, multiply_add(entries, weight, load(out1, y)))
        store(out0, x, dot)


@inlined
def _turn(rows, m0, m1, m2, m3, d, lanes, into_lanes):
    """Copy four stretches of d numbers from `rows` side by side into `lanes`, or the other way round.

    The copy goes in squares of 4 x 4, the last of which may overlap the one before.
    """
    if d < LANES:
        for x in range(d):
            n = LANES * x
            if into_lanes:
                put(lanes, n, get(rows, m0 + x))
                put(lanes, n + 1, get(rows, m1 + x))
                put(lanes, n + 2, get(rows, m2 + x))
                put(lanes, n + 3, get(rows, m3 + x))
            else:
                put(rows, m0 + x, get(lanes, n))
                put(rows, m1 + x, get(lanes, n + 1))
                put(rows, m2 + x, get(lanes, n + 2))
                put(rows, m3 + x, get(lanes, n + 3))
    else:
        for square in range(0, d, LANES):
            x = min(square, d - LANES)
            n = LANES * x
            if into_lanes:
                v = transposed(load(rows, m0 + x), load(rows, m1 + x), load(rows, m2 + x), load(rows, m3 + x))
                store(lanes, n, v[0])
                store(lanes, n + 4, v[1])
                store(lanes, n + 8, v[2])
                store(lanes, n + 12, v[3])
            else:
                v = transposed(load(lanes, n), load(lanes, n + 4), load(lanes, n + 8), load(lanes, n + 12))
                store(rows, m0 + x, v[0])
                store(rows, m1 + x, v[1])
                store(rows, m2 + x, v[2])
                store(rows, m3 + x, v[3])


@inlined
def _take(q, first, d, f, last, lanes):
    """Copy the messages of a block of factors, from factor f on, side by side into `lanes`."""
    m1, m2, m3 = min(f + 1, last) * d, min(f + 2, last) * d, min(f + 3, last) * d
    _turn(q, first + f * d, first + m1, first + m2, first + m3, d, lanes, True)


@inlined
def _give(out, first, d, f, last, lanes, smallest, scales):
    """Normalise the messages of a block of factors and put them back in flat order.

    `smallest` and `scales` [4] are lowered to the smallest entry and the sum of each factor before normalisation.
    """
    scale = filled(0.0)
    low = load(smallest, 0)
    for x in range(0, LANES * d, LANES):
        v = load(lanes, x)
        low = minimum(low, v)
        scale = add(v, scale)
    store(smallest, 0, low)
    store(scales, 0, minimum(load(scales, 0), scale))
    inverse = divide(filled(1.0), add(scale, filled(TINIEST)))
    for x in range(d):
        store(lanes, LANES * x, multiply(load(lanes, LANES * x), inverse))
    m1, m2, m3 = min(f + 1, last) * d, min(f + 2, last) * d, min(f + 3, last) * d
    _turn(out, first + f * d, first + m1, first + m2, first + m3, d, lanes, False)
