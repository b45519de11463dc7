# mypy: ignore-errors
"""Ordered statistics: linear algebra over 0 and 1, 64 rows to a word, one shot after the other.

Bits are taken in decreasing order of the probability that they are in error. The first independent bits become
*pivots*: for any choice of the other bits, the pivots can be set so that the syndrome is met. The check matrix itself
is never reduced. Instead the kernels keep the product T [M, M] of all row operations, column by column. The reduced
column of a bit is the sum of the columns of T at its few checks. A row operation changes only the columns of T that
have a one in the row of the new pivot.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equifactor.base.typing import FloatArray, IntArray
from equifactor.kernels.fastmath import get, put
from equifactor.kernels.jit import kernel

WORD = 64  # The number of rows in a word.
_ONE = np.uint64(1)


class Columns(NamedTuple):
    """The checks of every bit."""

    num_checks: int
    bit_ptr: IntArray  # [V+1]
    check_of_edge: IntArray


class Statistics(NamedTuple):
    """The input and the answers of B shots."""

    order: IntArray  # [B, V] bits, those most likely in error first
    syndrome: NDArray[np.uint8]  # [B, M] zeros and ones
    ratio: NDArray[np.float32]  # [B, V] or [1, V] channel log ratios
    chosen: NDArray[np.uint8]  # [B, V] the errors found
    weight: FloatArray  # [B]
    solved: NDArray[np.bool_]  # [B] whether the errors found meet the syndrome


@kernel
def reprocess(columns, statistics, rank, pairs):
    """Fill the answers of all shots.

    Args:
        columns: the code.
        statistics: the shots.
        rank: the rank of the checks, at which elimination ends; V if it is not known.
        pairs: -1 leaves all bits that are not pivots at 0. Otherwise each bit that is not a pivot is tried alone, and
            the first `pairs` of these bits are tried in pairs.

    Returns:
        The rank found.
    """
    columns, statistics = Columns(*columns), Statistics(*statistics)
    num_checks = columns.num_checks
    width = (num_checks + WORD - 1) // WORD
    transform = np.zeros((num_checks + 1) * width, np.uint64)  # The last row holds the syndrome.
    pivot_of_row = np.zeros(width * WORD, np.int64)
    is_pivot = np.zeros(len(columns.bit_ptr) - 1, np.bool_)
    column, used = np.zeros(width, np.uint64), np.zeros(width, np.uint64)
    gain = np.zeros(width * WORD)
    table = np.zeros((width * 8, 256))
    tried = np.zeros((max(pairs, 1), width), np.uint64)
    names = np.zeros(max(pairs, 1), np.int64)
    found = 0
    for b in range(len(statistics.order)):
        order, ratio = statistics.order[b], statistics.ratio[b if len(statistics.ratio) > 1 else 0]
        found = _eliminate(
            columns, order, statistics.syndrome[b], rank, transform, pivot_of_row, is_pivot, column, used
        )
        solution = transform[num_checks * width :]
        statistics.solved[b] = True
        for w in range(width):
            if solution[w] & ~used[w]:
                statistics.solved[b] = False
        weight = 0.0
        for r in range(width * WORD):
            gain[r] = 0.0
            if _bit(used, r):
                own = np.float64(ratio[pivot_of_row[r]])
                is_set = _bit(solution, r)
                weight += own if is_set else 0.0
                gain[r] = -own if is_set else own
        best, first, second = 0.0, -1, -1
        if pairs >= 0:
            _fill_table(gain, table)
            count = 0
            for n in range(len(order)):
                v = order[n]
                if is_pivot[v]:
                    continue
                _reduced(columns, transform, v, column)
                change = ratio[v] + _gain(table, column)
                if change < best:
                    best, first, second = change, v, -1
                if count < pairs:
                    tried[count], names[count] = column, v
                    count += 1
            for i in range(count):
                for j in range(i):
                    for w in range(width):
                        column[w] = tried[i, w] ^ tried[j, w]
                    change = ratio[names[i]] + ratio[names[j]] + _gain(table, column)
                    if change < best:
                        best, first, second = change, names[i], names[j]
        for v in (first, second):
            if v >= 0:
                statistics.chosen[b, v] = 1
                _reduced(columns, transform, v, column)
                for w in range(width):
                    solution[w] ^= column[w]
        for r in range(width * WORD):
            if _bit(used, r) and _bit(solution, r):
                statistics.chosen[b, pivot_of_row[r]] = 1
        statistics.weight[b] = weight + best
    return found


@kernel
def _eliminate(columns, order, syndrome, rank, transform, pivot_of_row, is_pivot, column, used):
    """Find the pivots and return their number."""
    num_checks, width = columns.num_checks, len(used)
    for n in range(len(transform)):
        put(transform, n, np.uint64(0))
    for c in range(num_checks):
        transform[c * width + c // WORD] = _ONE << np.uint64(c % WORD)
        if syndrome[c]:
            transform[num_checks * width + c // WORD] |= _ONE << np.uint64(c % WORD)
    for v in range(len(is_pivot)):
        is_pivot[v] = False
    for w in range(width):
        used[w] = np.uint64(0)
    found = 0
    for n in range(len(order)):
        if found == rank:
            break
        v = order[n]
        _reduced(columns, transform, v, column)
        word = 0
        while word < width and (column[word] & ~used[word]) == 0:
            word += 1
        if word == width:
            continue
        free = column[word] & ~used[word]
        place = free & (~free + _ONE)  # The lowest bit that is set.
        row = word * WORD
        while (_ONE << np.uint64(row % WORD)) != place:
            row += 1
        used[word] |= place
        pivot_of_row[row], is_pivot[v] = v, True
        column[word] &= ~place
        for k in range(num_checks + 1):
            if get(transform, k * width + word) & place:
                for w in range(width):
                    put(transform, k * width + w, get(transform, k * width + w) ^ get(column, w))
        found += 1
    return found


@kernel
def _reduced(columns, transform, v, column):
    """Compute the column of a bit after all row operations."""
    width = len(column)
    for w in range(width):
        put(column, w, np.uint64(0))
    for e in range(columns.bit_ptr[v], columns.bit_ptr[v + 1]):
        at = columns.check_of_edge[e] * width
        for w in range(width):
            put(column, w, get(column, w) ^ get(transform, at + w))


@kernel
def _bit(words, n):
    return (words[n // WORD] >> np.uint64(n % WORD)) & _ONE != 0


@kernel
def _fill_table(gain, table):
    """Set table[k, x] to the sum of the gains of rows 8 k to 8 k + 7 whose bits are set in x."""
    for k in range(len(table)):
        table[k, 0] = 0.0
        for i in range(8):
            for x in range(1 << i):
                table[k, x + (1 << i)] = table[k, x] + gain[8 * k + i]


@kernel
def _gain(table, column):
    """Return the sum of the gains of the rows in which a column has a one, byte by byte."""
    total = 0.0
    for w in range(len(column)):
        word = column[w]
        if word:
            for k in range(8):
                total += table[8 * w + k, (word >> np.uint64(8 * k)) & np.uint64(255)]
    return total
