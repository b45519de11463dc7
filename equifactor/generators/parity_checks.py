"""Low-density parity checks without repeated edges (regular checks have few 4-cycles), and null spaces over GF(2)."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.base.typing import IntArray


COLUMN_WEIGHT = 3  # The number of checks per bit, as in the codes of the literature on decoding.
_REPEAT_COST = 1_000_000  # The cost of a repeated edge, which is larger than the cost of all 4-cycles of a bit.
# The number of swaps without improvement after which the remaining 4-cycles are accepted. Chosen by hand.
_MAX_IDLE_SWAPS = 2_000
# The number of attempts to remove repeated edges before the degrees are reported as impossible. Chosen by hand.
_MAX_ROUNDS = 1_000


def regular_checks(n: int, num_checks: int, rng: np.random.Generator) -> IntArray:
    """Return the checks of each bit [n, 3]; every check has 3n / num_checks bits, and no bit is in a check twice.

    The search starts from a random matching of bits and checks. It swaps edges as long as there are repeated edges or
    4-cycles (two bits that share two checks) and swaps still help. The number of 4-cycles of a random matching does not
    grow with n. So the work is sorting, O(n log n), plus a bounded number of swaps. Short codes must keep some
    4-cycles.
    """
    sockets = rng.permutation(np.repeat(np.arange(num_checks), COLUMN_WEIGHT * n // num_checks))
    swaps = _Swaps(sockets.reshape(n, COLUMN_WEIGHT), num_checks)
    idle = 0
    bad = swaps.bad_at_first()
    while bad:
        repeats = any(len(set(swaps.row(i))) < COLUMN_WEIGHT for i in bad)
        # A repeated edge can always be swapped away, since some bit is not in that check. So the loop ends.
        if idle >= _MAX_IDLE_SWAPS and not repeats:
            break
        for i in bad:
            idle = 0 if swaps.try_swap(i, rng) else idle + 1
        bad = swaps.still_bad(bad)
    return swaps.checks()


def matched_checks(
    bit_degrees: IntArray, check_degrees: IntArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Draw random edges (bit [e], check [e]) without repeats, given degrees [n] and [m] with equal sums.

    The search starts from a random matching. It shuffles the checks of repeated edges and of some other edges until no
    edge is repeated. Raises `OptionError` if this fails, for example if a bit should have more checks than exist.
    """
    bit = np.repeat(np.arange(len(bit_degrees)), bit_degrees)
    check = rng.permutation(np.repeat(np.arange(len(check_degrees)), check_degrees))
    for _ in range(_MAX_ROUNDS):
        key = bit * len(check_degrees) + check
        order = np.argsort(key, kind="stable")
        repeated = order[1:][key[order[1:]] == key[order[:-1]]]
        if not len(repeated):
            return bit, check
        others = rng.integers(0, len(check), 3 * len(repeated) + 3)
        mixed = np.unique(np.concatenate((repeated, others)))
        check[mixed] = rng.permutation(check[mixed])
    raise OptionError(
        "No code with these degrees and without repeated edges was found. Choose smaller degrees, or more bits and "
        "checks."
    )


class _Swaps:
    """A matching of bits and checks that changes by swaps. It counts how many bits share each pair of checks.

    The initial matching is kept in sorted arrays; only rows and pairs that were used later are in dictionaries.
    """

    def __init__(self, checks: IntArray, num_checks: int) -> None:
        self._checks, self._num_checks = checks, num_checks
        ends = np.sort(checks, axis=1)
        pairs = list(combinations(range(COLUMN_WEIGHT), 2))
        keys = np.stack([ends[:, a] * num_checks + ends[:, b] for a, b in pairs], axis=1).ravel()
        order = np.argsort(keys, kind="stable")
        self._keys, self._bit_of_key = keys[order], order // len(pairs)
        self._rows: dict[int, list[int]] = {}  # the checks of each bit that was used
        self._used: dict[int, int] = {}  # the number of bits that share each pair of checks that was used
        self._moved: set[int] = set()  # the bits whose checks have changed
        self._met: set[int] = set()  # the bits that share a pair of checks with a bit that has moved

    def row(self, i: int) -> list[int]:
        """Return the checks of a bit."""
        if i not in self._rows:
            self._rows[i] = self._checks[i].tolist()
        return self._rows[i]

    def checks(self) -> IntArray:
        """Return the checks of all bits [n, 3]."""
        found = self._checks.copy()
        for i in self._moved:
            found[i] = self._rows[i]
        return found

    def bad_at_first(self) -> list[int]:
        """Return the bits in 4-cycles or with repeated edges before any swap."""
        shared = np.zeros(len(self._keys), bool)
        same = self._keys[1:] == self._keys[:-1]
        shared[1:] |= same
        shared[:-1] |= same
        shared |= self._keys // self._num_checks == self._keys % self._num_checks
        return np.unique(self._bit_of_key[shared]).tolist()

    def still_bad(self, bad: list[int]) -> list[int]:
        """Return the bits in 4-cycles or with repeated edges now; `bad` are the bad bits before the last swaps."""
        met, self._met = self._met, set()
        return sorted(i for i in {*bad, *self._moved, *met} if self._cost(self.row(i)))

    def try_swap(self, i: int, rng: np.random.Generator) -> bool:
        """Swap a check of bit i with a check of a random bit unless the cost rises; return whether the cost falls."""
        j = int(rng.integers(len(self._checks)))
        slot_i, slot_j = (int(s) for s in rng.integers(COLUMN_WEIGHT, size=2))
        if i == j:
            return False
        rows = (self.row(i), self.row(j))

        def replace(new_i: int, new_j: int) -> int:
            """Put two checks into the two slots, update the counts, and return the cost of both bits."""
            for row in rows:
                self._count(row, -1)
            rows[0][slot_i], rows[1][slot_j] = new_i, new_j
            for row in rows:
                self._count(row, 1)
            return self._cost(rows[0]) + self._cost(rows[1])

        old = rows[0][slot_i], rows[1][slot_j]
        before = self._cost(rows[0]) + self._cost(rows[1])
        after = replace(old[1], old[0])
        if after > before:
            replace(*old)
            return False
        self._moved |= {i, j}
        for row in rows:
            self._met.update(*(self._first_bits(key) for key in self._pairs(row) if self._number(key) > 1))
        return after < before

    def _pairs(self, row: list[int]) -> list[int]:
        a, b, c = sorted(row)
        return [a * self._num_checks + b, a * self._num_checks + c, b * self._num_checks + c]

    def _first_bits(self, key: int) -> list[int]:
        """Return the bits that had a pair of checks before any swap."""
        first, last = np.searchsorted(self._keys, (key, key + 1))
        found: list[int] = self._bit_of_key[first:last].tolist()
        return found

    def _number(self, key: int) -> int:
        """Return the number of bits that have a pair of checks."""
        if key not in self._used:
            self._used[key] = len(self._first_bits(key))
        return self._used[key]

    def _count(self, row: list[int], step: int) -> None:
        for key in self._pairs(row):
            self._used[key] = self._number(key) + step

    def _cost(self, row: list[int]) -> int:
        """Return the cost of one bit: its number of 4-cycles, and `_REPEAT_COST` for each repeated edge."""
        return sum(
            _REPEAT_COST if key // self._num_checks == key % self._num_checks else self._number(key) - 1
            for key in self._pairs(row)
        )


def null_space(parity: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], IntArray]:
    """Return a basis of all codewords over GF(2), in systematic form.

    Args:
        parity: [m, n] zeros and ones.

    Returns:
        The generator [k', n], with k' = n - rank and `generator @ parity.T = 0 (mod 2)`, and the positions [k'] at
        which a codeword contains its message unchanged. Cost O(m^2 n).
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
