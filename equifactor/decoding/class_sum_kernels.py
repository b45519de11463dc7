# mypy: ignore-errors
"""Sums over all sets of errors of a shot, by the observables that they flip, for 8 shots at a time.

A table holds the probabilities of the flips of observables and of *open* checks, which some but not all of their errors
have passed. An error mixes every entry with the entry whose flips differ by those of the error. A check that all of its
errors have passed is closed: only entries in which it has the value of the shot are kept.
"""

from typing import NamedTuple

import numpy as np

from equifactor.base.typing import IntArray
from equifactor.kernels.jit import fast_kernel

WIDE = 8  # The number of shots that share a table: 8 numbers fill one line of cache (64 bytes).


class SumProgram(NamedTuple):
    """The steps, which are the same for all shots."""

    mask: IntArray  # [K] what an error flips in the index of the table; 0 for a check that is closed
    high: IntArray  # [K] the highest bit of the mask, or the bit of the check
    subject: IntArray  # [K] the error or the check
    size: IntArray  # [K] the number of entries in use


@fast_kernel
def sum_classes(program, probability, syndrome, table, found):
    """Compute the log probability of the shot and of every flip of the observables.

    Args:
        program: the steps.
        probability: [C, V] or [1, V] of the errors.
        syndrome: [C, M]
        table: [entries, WIDE] scratch.
        found: [C, 2^L] filled.
    """
    program = SumProgram(*program)
    count, classes = found.shape
    scale, value, q = np.zeros(WIDE), np.zeros(WIDE, np.uint8), np.zeros(WIDE)
    for first in range(0, count, WIDE):
        width = min(WIDE, count - first)
        table[:] = 0.0
        table[0, :] = 1.0
        scale[:] = 0.0
        for k in range(len(program.mask)):
            mask, high, size, own = program.mask[k], program.high[k], program.size[k], program.subject[k]
            if mask:
                for n in range(WIDE):
                    q[n] = probability[first + min(n, width - 1) if len(probability) > 1 else 0, own]
                for begin in range(0, size, 2 * high):
                    for i in range(begin, begin + high):
                        j = i ^ mask
                        for n in range(WIDE):
                            a, b = table[i, n], table[j, n]
                            table[i, n] = a + q[n] * (b - a)
                            table[j, n] = b + q[n] * (a - b)
                continue
            for n in range(WIDE):
                value[n] = syndrome[first + min(n, width - 1), own]
                q[n] = 0.0
            for begin in range(0, size, 2 * high):
                for i in range(begin, begin + high):
                    for n in range(WIDE):
                        kept = table[i + high, n] if value[n] else table[i, n]
                        table[i, n], table[i + high, n] = kept, 0.0
                        q[n] += kept
            for n in range(WIDE):  # The sums do not underflow.
                scale[n] += np.log(q[n]) if q[n] > 0.0 else -np.inf
                q[n] = 1.0 / q[n] if q[n] > 0.0 else 0.0
            for i in range(size):
                for n in range(WIDE):
                    table[i, n] *= q[n]
        for n in range(width):
            for c in range(classes):
                found[first + n, c] = scale[n] + np.log(table[c, n]) if table[c, n] > 0.0 else -np.inf
