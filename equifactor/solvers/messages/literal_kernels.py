# mypy: ignore-errors
"""Parallel belief propagation on parity checks and clauses: one log ratio per message, many factors side by side.

Factors of one kind and arity k form a block, which is cut into strips of `LANES` factors. The messages of slot s of a
strip are one stretch of memory. So every step of an update is a plain loop over factors that the compiler vectorises,
and a sweep reads messages from first to last. The kinds themselves update the messages of a strip (`ratio_kernels`). A
message is accurate to rounding as long as no log ratio exceeds `LIMIT`; sweeps of sums stop before one does.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equifactor.base.typing import FloatArray, IntArray
from equifactor.factors.ratio_kernels import update_ratios
from equifactor.factors.ratio_rows import LANES, LIMIT, ROWS
from equifactor.kernels.fastmath import TINY, exp_, get, put
from equifactor.kernels.jit import fast_kernel, inlined, reordering_kernel

KIND, ARITY, COUNT, EDGE, FACTOR = 0, 1, 2, 3, 4  # columns of Literals.blocks
UNARY, DEGREE, BOUND = 0, 1, 2  # places in Literals.reach
PART = 32768  # Edges whose variables are numbered together: their sums fill half a megabyte.


class Literals(NamedTuple):
    """The checks and clauses of a batch and their messages."""

    blocks: IntArray  # [B, 5] kind, arity, number of factors, first edge and first factor of each block
    lam: FloatArray  # [E] factor-to-variable log ratios ln m(1) - ln m(0), slot by slot within a strip
    unary: FloatArray  # [V] log ratio of the unary factors
    reach: FloatArray  # [3] largest size of a unary ratio, largest degree, bound of a sum and a message together
    begun: IntArray  # [P] number of variables whose first edge lies in a part of `PART` edges or before it
    place_of_edge: NDArray[np.int32]  # [E] place of the sums of its variable: twice its number
    graph_of_factor: NDArray[np.int32]  # [F]
    sign_of_edge: NDArray[np.int8]  # [E] 1 or -1: the sign of each literal; all 1 for a kind without words
    number: FloatArray  # [F] `StructuredFactor.ratio_numbers` of each factor


@fast_kernel
def sweep_literals(count, literals, total, side, damping, is_max, change, check):
    """Make several parallel updates of all messages.

    Args:
        count: number of sweeps.
        literals: factors and messages.
        total: [2V] the sums into each variable, before and after a sweep, side by side, so that one fetch from memory
            brings both. On large graphs these fetches take most of the time.
        side: 0 or 1: which of the two sums are those of the present messages.
        damping: share of the old log ratio that is kept.
        is_max: max-product instead of sum-product.
        change: [G] raised to the largest undamped movement in probability of the last sweep, when `check` is set.
        check: whether to measure the change.

    Returns:
        the number of sweeps made: fewer if an incoming log ratio of the next sweep could exceed `LIMIT`.
    """
    literals = Literals(*literals)
    blocks, lam = literals.blocks, literals.lam
    longest = 1
    for b in range(len(blocks)):
        longest = max(longest, blocks[b, ARITY])
    work = np.zeros((longest + 1) * ROWS * LANES)
    top = np.zeros(LANES)
    reach = literals.reach
    for n in range(count):
        before, after = total[side:], total[1 - side :]
        if not is_max and reach[BOUND] > LIMIT and _largest(before[::2]) + _largest(lam) > LIMIT:
            return n
        want = check and n == count - 1
        top[:] = 0.0
        filled = 0
        for b in range(len(blocks)):
            filled = _update_block(literals, blocks[b], before, after, filled, work, damping, is_max, change, want, top)
        side = 1 - side
        reach[BOUND] = reach[UNARY] + (reach[DEGREE] + 1.0) * top.max()
    return count


@reordering_kernel
def _largest(values):
    """Return the largest absolute value."""
    top = 0.0
    for n in range(len(values)):
        top = max(top, abs(values[n]))
    return top


@fast_kernel
def _update_block(literals, block, before, after, filled, work, damping, is_max, change, want, top):
    """Update the messages of a block, LANES factors at a time: read, update, write and add them to the next sums."""
    lam, place_of_edge, sign_of_edge = literals.lam, literals.place_of_edge, literals.sign_of_edge
    unary, begun = literals.unary, literals.begun
    number, graph_of_factor = literals.number, literals.graph_of_factor
    arity, count, edge, factor = block[ARITY], block[COUNT], block[EDGE], block[FACTOR]
    ends = arity * ROWS * LANES  # the row of the `number` of each factor
    for start in range(0, count, LANES):
        lanes = min(LANES, count - start)
        base = edge + start * arity
        for f in range(lanes):
            put(work, ends + f, get(number, factor + start + f))
        until = get(begun, max(base + arity * lanes - 1, 0) // PART)
        for i in range(filled, until):
            put(after, 2 * i, get(unary, i))
        filled = max(filled, until)
        if lanes == LANES:  # loops of a known length have no remainders
            for s in range(arity):
                _read(work, s * ROWS * LANES, before, lam, place_of_edge, base + s * LANES, LANES)
        else:
            for s in range(arity):
                _read(work, s * ROWS * LANES, before, lam, place_of_edge, base + s * lanes, lanes)
        update_ratios(block[KIND], work, arity, sign_of_edge, base, lanes, is_max)
        if want:
            for s in range(arity):
                first, at = base + s * lanes, s * ROWS * LANES
                for f in range(lanes):
                    g = get(graph_of_factor, factor + start + f)
                    moved = abs(_probability(get(work, at + f)) - _probability(get(lam, first + f)))
                    put(change, g, max(get(change, g), moved))
        if damping > 0.0:
            for s in range(arity):
                first, at = base + s * lanes, s * ROWS * LANES
                for f in range(lanes):
                    gap = get(lam, first + f) - get(work, at + f)
                    put(work, at + f, get(work, at + f) + damping * (gap if abs(gap) > TINY else 0.0))
        if not is_max:
            for s in range(arity):
                for f in range(lanes):
                    put(top, f, max(get(top, f), abs(get(work, s * ROWS * LANES + f))))
        if lanes == LANES:
            for s in range(arity):
                _write(work, s * ROWS * LANES, after, lam, place_of_edge, base + s * LANES, LANES)
        else:
            for s in range(arity):
                _write(work, s * ROWS * LANES, after, lam, place_of_edge, base + s * lanes, lanes)
    return filled


@inlined
def _read(work, at, before, lam, place_of_edge, first, lanes):
    """Read the log ratios that arrive at one slot of some factors."""
    for f in range(lanes):
        put(work, at + f, get(before, get(place_of_edge, first + f)) - get(lam, first + f))


@inlined
def _write(work, at, after, lam, place_of_edge, first, lanes):
    """Store the log ratios that one slot of some factors sends, and add them to the sums."""
    for f in range(lanes):
        put(lam, first + f, get(work, at + f))
    for f in range(lanes):
        i = get(place_of_edge, first + f)
        put(after, i, get(after, i) + get(work, at + f))


@fast_kernel
def signatures(var_of_edge, num_parts, key):
    """Write the parts of the order of edges in which each variable occurs first as one number.

    Args:
        var_of_edge: [E].
        num_parts: number P of parts of `PART` edges each.
        key: [V] zeros; becomes the parts of the first three edges of each variable, as digits to base P + 1.
    """
    base = num_parts + 1
    for e in range(len(var_of_edge)):
        i = var_of_edge[e]
        if key[i] < base * base:
            key[i] = key[i] * base + e // PART + 1
    for i in range(len(key)):
        while 0 < key[i] < base * base:
            key[i] *= base


@inlined
def _probability(ratio):
    """Return the probability of state 1, from a log ratio."""
    small = exp_(max(-abs(ratio), -LIMIT))
    return (1.0 if ratio > 0.0 else small) / (1.0 + small)
