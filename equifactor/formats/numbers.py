"""Readers for the whitespace-separated numbers of a large text.

`open_tokens` returns one of two readers with the same methods and the same results. `TokenList` splits the text and
uses Python's `int` and `float`. It has no start-up cost and suits small files. `TokenScanner` walks over the bytes with
the kernels of `number_kernels`. It is several times as fast and creates no object per token, but it imports Numba.
Neither reader counts lines: a wrong token is reported by its number, and `locate` finds its line.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray


SMALL = 2**20  # The largest size of a text, in bytes, for which splitting is faster than importing Numba.
_SMALL_WITH_NUMBA = 2**12  # The largest size of a text, in bytes, for which splitting is faster than the kernels.
_SATURATED = 2**62  # The value of every larger integer: larger than any count that fits into memory.
_SEARCHED_AT_ONCE = 2**22  # The number of bytes that `locate` searches at a time. Chosen by hand.
_MAX_ODD_TOKENS = 2**16  # The number of tokens that a kernel may leave to Python before it returns. Chosen by hand.


class TokenError(Exception):
    """A token is missing or not a number as required. The format modules always catch this error.

    `token` is the number of the token in the text. `row` and `column` are the place of the value that was expected;
    column -1 is the count at the start of a row.
    """

    def __init__(self, token: int, row: int, column: int = -1) -> None:
        super().__init__(token, row, column)
        self.token, self.row, self.column = token, row, column


class Tokens(Protocol):
    """The interface of both readers. Every method raises `TokenError` at the first wrong token."""

    def max_tokens_left(self) -> int:
        """Return an upper bound on the number of tokens left: each token takes a byte and a separator."""

    def integers(self, count: int) -> IntArray:
        """Read the next `count` integers; integers above 2^62 become 2^62."""

    def rows(self, count: int) -> tuple[IntArray, IntArray]:
        """Read the next `count` rows `k v1 .. vk` as `ptr [count+1]` and all values one after the other."""

    def tables(self, ptr: IntArray) -> FloatArray:
        """Read one table `n x1 .. xn` per row of `ptr`, which states the required n. Return all entries together."""

    def at_end(self) -> bool:
        """Return whether no token is left."""


def open_tokens(data: bytes, start: int = 0, small: int | None = None) -> Tokens:
    """Return a reader of the tokens from byte `start` on; texts of more than `small` bytes use the kernels."""
    if small is None:
        small = _SMALL_WITH_NUMBA if "equifactor.formats.number_kernels" in sys.modules else SMALL
    return TokenList(data, start) if len(data) <= small else TokenScanner(data, start)


def locate(data: bytes, token: int, start: int = 0) -> tuple[int, bytes | None]:
    """Return the line (from 1) and the text of one token after byte `start`.

    If there is no such token, return the line of the last token and None.
    """
    found, offset = _offset(data, token, start)
    text = data[offset : offset + 1000].split(None, 1)[0] if found else None
    return data.count(b"\n", 0, offset) + 1, text


def _offset(data: bytes, token: int, start: int) -> tuple[bool, int]:
    """Return whether the token exists, and the offset where it begins, or where the last token begins."""
    text = np.frombuffer(data, np.uint8)
    seen, space_before, last = 0, True, start
    for begin in range(start, len(data), _SEARCHED_AT_ONCE):
        piece = text[begin : begin + _SEARCHED_AT_ONCE]
        inside = (piece != 32) & ((piece < 9) | (piece > 13))
        first = inside.copy()
        first[1:] &= ~inside[:-1]
        first[0] &= space_before
        starts = np.flatnonzero(first)
        if seen + len(starts) > token:
            return True, begin + int(starts[token - seen])
        seen += len(starts)
        space_before = not inside[-1]
        last = begin + int(starts[-1]) if len(starts) else last
    return False, last


class TokenList:
    """A reader that holds the tokens in a Python list, about 100 bytes of memory per token."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        # Python reads 1_000 as 1000 but files must not contain it. A question mark is wrong in any number.
        self._tokens = data[start:].replace(b"_", b"?").split()
        self._next = 0
        self._data, self._start = data, start

    def max_tokens_left(self) -> int:
        """Implement `Tokens`."""
        last = self._next - 1
        pos = _offset(self._data, last, self._start)[1] + len(self._tokens[last]) if last >= 0 else self._start
        return (len(self._data) - pos + 1) // 2

    def integers(self, count: int) -> IntArray:
        """Implement `Tokens`."""
        return np.array([self._integer(row, -1) for row in range(count)], np.int64)

    def rows(self, count: int) -> tuple[IntArray, IntArray]:
        """Implement `Tokens`."""
        ptr, values = [0], []
        for row in range(count):
            length = self._integer(row, -1)
            if length < 0:
                raise TokenError(self._next - 1, row)
            values += [self._integer(row, column) for column in range(length)]
            ptr.append(len(values))
        return np.array(ptr, np.int64), np.array(values, np.int64)

    def tables(self, ptr: IntArray) -> FloatArray:
        """Implement `Tokens`."""
        out = np.empty(int(ptr[-1]))
        for row, (first, stop) in enumerate(pairwise(ptr.tolist())):
            if self._integer(row, -1) != stop - first:
                raise TokenError(self._next - 1, row)
            words = self._tokens[self._next : self._next + stop - first]
            try:
                out[first : first + len(words)] = list(map(float, words))
            except ValueError:
                column = next(k for k, word in enumerate(words) if not _is_float(word))
                raise TokenError(self._next + column, row, column) from None
            self._next += len(words)
            if len(words) < stop - first:
                raise TokenError(self._next, row, len(words))
        return out

    def at_end(self) -> bool:
        """Implement `Tokens`."""
        return self._next == len(self._tokens)

    def _integer(self, row: int, column: int) -> int:
        try:
            value = int(self._tokens[self._next])
        except (IndexError, ValueError):
            raise TokenError(self._next, row, column) from None
        self._next += 1
        return max(-_SATURATED, min(value, _SATURATED))


class TokenScanner:
    """A reader that scans the bytes with the kernels; it needs no memory beyond the arrays it returns."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        from equifactor.formats import number_kernels as numbers

        self._kernels = numbers
        self._data = data
        self._text = np.frombuffer(data, np.uint8)
        self._pos = start
        self._next = 0  # the number of the token at _pos

    def max_tokens_left(self) -> int:
        """Implement `Tokens`."""
        return (len(self._data) - self._pos + 1) // 2

    def integers(self, count: int) -> IntArray:
        """Implement `Tokens`."""
        out = np.empty(count, np.int64)
        status, self._pos, read = self._kernels.scan_integers(self._text, self._pos, out)
        if status != self._kernels.DONE:
            raise TokenError(self._next + read, read)
        self._next += count
        return out

    def rows(self, count: int) -> tuple[IntArray, IntArray]:
        """Implement `Tokens`."""
        ptr = np.zeros(count + 1, np.int64)
        # Two passes: the first finds the lengths, so that the second can fill an array of the right size.
        lengths = self._kernels.scan_lengths(self._text, self._pos, ptr)
        _, _, row, column = lengths
        known = ptr[: row + 1] if column < 0 else np.append(ptr[: row + 1], ptr[row] + column)
        values = np.empty(known[-1], np.int64)
        filled = self._kernels.scan_rows(self._text, self._pos, known, values)
        # The second pass finds wrong values, which the first skips and which come earlier in the file.
        for status, end, row, column in (filled, lengths):
            if status != self._kernels.DONE:
                raise TokenError(self._next + int(ptr[row]) + row + column + 1, row, column)
            self._pos = end
        self._next += count + len(values)
        return ptr, values

    def tables(self, ptr: IntArray) -> FloatArray:
        """Implement `Tokens`."""
        out = np.empty(int(ptr[-1]))
        odd = np.empty((_MAX_ODD_TOKENS, 3), np.int64)
        row, column = 0, -1
        while True:
            status, self._pos, row, column, num_odd = self._kernels.scan_tables(
                self._text, self._pos, row, column, ptr, out, odd
            )
            for entry, start, stop in odd[:num_odd].tolist():
                try:
                    out[entry] = float(self._data[start:stop].replace(b"_", b"?"))
                except ValueError:
                    owner = int(np.searchsorted(ptr, entry, side="right")) - 1
                    column = entry - int(ptr[owner])
                    raise TokenError(self._next + entry + owner + 1, owner, column) from None
            if status == self._kernels.BAD:
                raise TokenError(self._next + int(ptr[row]) + row + column + 1, row, column)
            if status == self._kernels.DONE:
                self._next += len(ptr) - 1 + len(out)
                return out

    def at_end(self) -> bool:
        """Implement `Tokens`."""
        return not self._data[self._pos :].strip() if self._pos < len(self._data) else True


def _is_float(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
