"""Regular low-density parity checks without repeated edges and with few 4-cycles, and their null space over GF(2)."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.typing import IntArray


COLUMN_WEIGHT = 3  # checks per bit, as in the codes the decoding papers use
_REPEAT = 1_000_000  # the cost of a repeated edge, which outweighs any number of 4-cycles
_PATIENCE = 2_000  # the number of swaps without progress after which the 4-cycles that are left are accepted


def regular_checks(n: int, num_checks: int, rng: np.random.Generator) -> IntArray:
    """The checks of each bit [n, 3]; every check has 3n / num_checks bits, and no bit meets a check twice.

    Starts from a random matching of bits and checks and swaps edges as long as repeated edges or 4-cycles
    (two bits that share two checks) are left and swaps still help. A random matching has a number of
    4-cycles that does not grow with n, so the work is O(n) plus a bounded number of swaps; short codes must
    keep some 4-cycles.
    """
    sockets = rng.permutation(np.repeat(np.arange(num_checks), COLUMN_WEIGHT * n // num_checks))
    checks: list[list[int]] = sockets.reshape(n, COLUMN_WEIGHT).tolist()
    used = Counter(pair for row in checks for pair in _pairs(row))
    idle = 0
    while bad := [i for i, row in enumerate(checks) if _cost(row, used)]:
        repeats = any(len(set(checks[i])) < COLUMN_WEIGHT for i in bad)
        # A repeated edge can always be swapped away (some bit does not meet that check), so this ends.
        if idle >= _PATIENCE and not repeats:
            break
        for i in bad:
            idle = 0 if _try_swap(checks, used, i, rng) else idle + 1
    return np.array(checks, np.int64)


def _pairs(row: list[int]) -> list[tuple[int, int]]:
    return list(combinations(sorted(row), 2))


def _cost(row: list[int], used: Counter[tuple[int, int]]) -> int:
    """The cost of one bit: the 4-cycles that it takes part in, and its repeated edges, which weigh far more."""
    return sum(_REPEAT if a == b else used[a, b] - 1 for a, b in _pairs(row))


def _try_swap(checks: list[list[int]], used: Counter[tuple[int, int]], i: int, rng: np.random.Generator) -> bool:
    """Swap a check of bit i with one of a random bit unless that is worse; True when it is better."""
    j = int(rng.integers(len(checks)))
    slot_i, slot_j = (int(s) for s in rng.integers(COLUMN_WEIGHT, size=2))
    if i == j:
        return False
    rows = (checks[i], checks[j])

    def replace(new_i: int, new_j: int) -> int:
        """Put two checks in the two slots, keep the counts right, and return the cost of both bits."""
        for row in rows:
            used.subtract(_pairs(row))
        rows[0][slot_i], rows[1][slot_j] = new_i, new_j
        for row in rows:
            used.update(_pairs(row))
        return sum(_cost(row, used) for row in rows)

    old = rows[0][slot_i], rows[1][slot_j]
    before = sum(_cost(row, used) for row in rows)
    after = replace(old[1], old[0])
    if after > before:
        replace(*old)
    return after < before


def null_space(parity: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], IntArray]:
    """Basis of all codewords over GF(2), in systematic form.

    Args:
        parity: [m, n] zeros and ones.

    Returns:
        generator [k', n] with `generator @ parity.T = 0 (mod 2)`, k' = n - rank; and the [k'] positions at
        which a codeword shows its message unchanged. Cost O(m^2 n).
    """
    rows = parity.astype(bool)
    n = rows.shape[1]
    pivots: list[int] = []
    for column in range(n):
        below = np.flatnonzero(rows[len(pivots) :, column])
        if len(below) == 0:
            continue
        top = len(pivots)
        rows[[top, top + below[0]]] = rows[[top + below[0], top]]
        others = rows[:, column].copy()
        others[top] = False
        rows[others] ^= rows[top]
        pivots.append(column)
        if len(pivots) == len(rows):
            break
    free = np.setdiff1d(np.arange(n), pivots)
    generator = np.zeros((len(free), n), np.uint8)
    generator[np.arange(len(free)), free] = 1
    generator[:, pivots] = rows[: len(pivots), free].T
    return generator, free
