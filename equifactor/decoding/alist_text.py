"""Parity-check matrices in MacKay's format (`.alist`).

7 3                   n columns (bits) and m rows (checks)
3 4                   the largest degree of a column and of a row
3 2 2 1 2 1 1         the degrees of the columns
4 4 4                 the degrees of the rows
1 2 3                 the rows of the ones of the first column, counted from 1
1 2 0                 a short list may be padded with zeros, in every line or in none
...
1 2 3 5               the columns of the ones of the first row; these m lists may be left out
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import FormatError, brief
from equifactor.kernels.pointers import ptr_of

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray

# A word that is not a whole number of at most 18 digits, which always fits into 64 bits.
_NOT_WHOLE = re.compile(r"(?<!\S)(?![0-9]{1,18}(?!\S))\S+")


def parse_alist(text: str, where: str = "<alist>") -> tuple[IntArray, IntArray, tuple[int, int]]:
    """Return rows and columns of the ones of a parity-check matrix in MacKay's format, and its shape (checks, bits).

    Some programs pad short lists with zeros and some do not, and some leave out the lists of the rows. Every layout
    that has the number of words of the file is tried. The lists of columns, the lists of rows and the degrees must
    agree. Raises `FormatError` if no layout fits.
    """
    if (wrong := _NOT_WHOLE.search(text)) is not None:
        line = text.count("\n", 0, wrong.start()) + 1
        raise FormatError(f"{where}:{line}: expected whole numbers of at least 0, found {brief(wrong[0])}.")
    return _AlistReader(np.array(text.split(), np.int64), where).read()


class _AlistReader:
    """The numbers of a file: its shape, its degrees, and the lists that follow them (`body`)."""

    def __init__(self, numbers: IntArray, where: str) -> None:
        self.where = where
        n, m = [*map(int, numbers[:2]), 0, 0][:2]
        if len(numbers) < 4 + n + m or n < 1 or m < 1:
            raise FormatError(
                f"{where}: expected n m, two largest degrees, n + m degrees, then n lists of rows. The file begins "
                f"with {brief(numbers[:2].tolist())} and has {len(numbers)} numbers."
            )
        self.shape = m, n
        self.widest = numbers[2:4].tolist()
        self.degrees = numbers[4 : 4 + n], numbers[4 + n : 4 + n + m]
        self.body = numbers[4 + n + m :]
        for name, widest, degrees in zip(("column", "row"), self.widest, self.degrees, strict=True):
            if int(degrees.max()) > widest:
                at = int(np.argmax(degrees > widest))
                raise FormatError(
                    f"{where}: {name} {at + 1} has degree {degrees[at]}, more than the largest degree {widest} in "
                    "line 2."
                )
        sums = [sum(degrees.tolist()) for degrees in self.degrees]
        if sums[0] != sums[1] or not sums[0]:
            raise FormatError(
                f"{where}: the degrees of the columns sum to {sums[0]} and those of the rows to {sums[1]}. Both must "
                "be the number of ones, at least 1."
            )
        self.num_ones = sums[0]

    def read(self) -> tuple[IntArray, IntArray, tuple[int, int]]:
        reasons: list[str] = []
        for padded, rows_padded in product((True, False), (True, False, None)):
            sizes = self.size(0, padded), 0 if rows_padded is None else self.size(1, rows_padded)
            if sum(sizes) != len(self.body):
                continue
            try:
                ones = self.ones(self.body[: sizes[0]], 0, padded)
                self.check_rows(ones, self.body[sizes[0] :], rows_padded)
            except FormatError as error:
                reasons.append(str(error))
                continue
            # No other layout gives another matrix: padding is zeros, and lists without padding have no zeros.
            return ones // self.shape[1], ones % self.shape[1], self.shape
        if reasons:
            raise FormatError(reasons[0])
        raise FormatError(
            f"{self.where}: expected {self.num_ones} numbers in lists of rows, or {self.size(0, True)} with padding, "
            f"and then the lists of columns or nothing. Found {len(self.body)} numbers after the degrees."
        )

    def size(self, axis: int, padded: bool) -> int:
        """Return how many numbers the lists of the columns (0) or rows (1) have."""
        return len(self.degrees[axis]) * int(self.widest[axis]) if padded else self.num_ones

    def ones(self, lists: IntArray, axis: int, padded: bool) -> IntArray:
        """Return the places [ones] of the ones, row * n + column, ascending, from the lists of columns or of rows."""
        name, other, largest = ("column", "rows", self.shape[0]) if axis == 0 else ("row", "columns", self.shape[1])
        degrees = self.degrees[axis]
        owner = np.repeat(np.arange(len(degrees)), degrees)
        if padded:
            table = lists.reshape(len(degrees), self.widest[axis])
            listed = np.arange(self.widest[axis]) < degrees[:, None]
            if table[~listed].any():
                at = int(np.argmax((table * ~listed).any(axis=1)))
                raise FormatError(f"{self.where}: the list of {name} {at + 1} is longer than its degree {degrees[at]}.")
            lists = table[listed]
        wrong = (lists < 1) | (lists > largest)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise FormatError(
                f"{self.where}: expected {other} from 1 to {largest} in the list of {name} {owner[at] + 1}, found "
                f"{lists[at]}."
            )
        places = (lists - 1) * self.shape[1] + owner if axis == 0 else owner * self.shape[1] + lists - 1
        ones = np.sort(places)
        if (ones[1:] == ones[:-1]).any():
            twice = int(ones[1:][ones[1:] == ones[:-1]][0])
            at = (twice % self.shape[1] if axis == 0 else twice // self.shape[1]) + 1
            raise FormatError(f"{self.where}: the list of {name} {at} has the same number twice.")
        return ones

    def check_rows(self, ones: IntArray, lists: IntArray, padded: bool | None) -> None:
        """Raise `FormatError` if the degrees or the lists of the rows do not belong to these ones."""
        counts = np.bincount(ones // self.shape[1], minlength=self.shape[0])
        wrong = counts != self.degrees[1]
        if wrong.any():
            at = int(np.argmax(wrong))
            raise FormatError(
                f"{self.where}: row {at + 1} has degree {self.degrees[1][at]}, but the lists of the columns name it "
                f"{counts[at]} times."
            )
        if padded is None:
            return
        by_row = self.ones(lists, 1, padded)
        if not np.array_equal(ones, by_row):
            ptr = ptr_of(self.degrees[1])
            at = int(np.searchsorted(ptr, int(np.argmax(ones != by_row)), side="right"))
            raise FormatError(f"{self.where}: the list of row {at} does not agree with the lists of the columns.")
