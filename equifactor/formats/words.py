"""The words of a text file one by one, with line numbers for errors."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from equifactor.base.errors import FormatError

_T = TypeVar("_T")

INT64_MAX = 2**63 - 1  # The largest integer of 64 bits.
_FIRST_WORD = re.compile(rb"\s*(\S*)")
_INTEGER = re.compile(rb"[+-]?[0-9]+")
# Possessive repeats: a word of 10^5 digits and a letter must not take quadratic time.
_NUMBER = re.compile(rb"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:e[+-]?[0-9]++)?|[+-]?(?:inf|infinity)", re.IGNORECASE)
# The largest number of characters of an integer that is converted. Longer integers are outside 64 bits, and Python
# raises ValueError above 4,300 digits.
_MAX_DIGITS = 40
_MAX_SHOWN = 40  # The largest number of characters of a word that an error shows. Chosen by hand.


def shown(word: bytes) -> str:
    """Return a word as errors show it: quoted and shortened, with control and non-UTF-8 bytes escaped.

    Examples:
        >>> print(shown(b"12x"), shown(bytes([0, 255])))
        '12x' '\\x00\\xff'
    """
    text = word[: 4 * _MAX_SHOWN].decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"'{text[:_MAX_SHOWN]}...'" if len(text) > _MAX_SHOWN or len(word) > 4 * _MAX_SHOWN else f"'{text}'"


class Words:
    """The whitespace-separated words of a file, in order. Errors read `FILE:LINE: expected X, found Y`.

    Args:
        data: the whole file; words are cut from it one at a time, so that no memory beyond `data` is needed.
        where: the file's name in errors.
        comment: the character that starts a comment, which then runs to the end of the line.
        first_line: the number of the line that `data` begins on, for a piece of a larger file.
        end: the words for the end of `data` in errors.
    """

    __slots__ = ("_counted", "_counted_line", "_data", "_end", "_match", "_start", "_stop", "_where")

    def __init__(
        self,
        data: bytes,
        where: str,
        *,
        comment: str = "",
        first_line: int = 1,
        end: str = "the end of the file",
    ) -> None:
        mark = re.escape(comment.encode())
        # Possessive repeats: a match that fails at the end of the file must not backtrack.
        pattern = rb"(?:\s++|%b[^\n]*+)*+([^\s%b]++)" % (mark, mark) if comment else rb"\s*+(\S++)"
        self._match = re.compile(pattern).match
        self._data = data
        self._where = where
        self._end = end
        self._start = self._stop = 0  # the last word is data[start:stop]
        self._counted, self._counted_line = 0, first_line  # newlines are counted up to here

    @property
    def line(self) -> int:
        """The line of the last word read. All calls together cost O(size of the file)."""
        if self._start > self._counted:
            self._counted_line += self._data.count(b"\n", self._counted, self._start)
            self._counted = self._start
        return self._counted_line

    def error(self, message: str) -> FormatError:
        """Return an error at the last word read, for the caller to raise."""
        return FormatError(f"{self._where}:{self.line}: {message}")

    def peek(self) -> bytes | None:
        """Return the next word without reading it, or None at the end of the file."""
        found = self._match(self._data, self._stop)
        return found[1] if found else None

    def word(self, expected: str) -> str:
        """Read the next word as text; `expected` describes it in errors."""
        return self._next(expected).decode("utf-8", "backslashreplace")

    def integer(self, expected: str, low: int | None = None, high: int | None = None) -> int:
        """Read the next word as a whole number from `low` to `high`, inclusive, and always within 64 bits."""
        word = self._next(expected)
        if not _INTEGER.fullmatch(word):
            raise self.error(f"expected {expected}, found {shown(word)}")
        value = int(word) if len(word) <= _MAX_DIGITS else (-1 if word[:1] == b"-" else 1) << 128
        least = -INT64_MAX if low is None else low
        most = INT64_MAX if high is None else high
        if not least <= value <= most:
            raise self.error(f"expected {expected} {_range(low, high)}, found {shown(word)}")
        return value

    def number(self, expected: str, low: float = -math.inf, high: float = sys.float_info.max) -> float:
        """Read the next word as a float from `low` to `high`. By default `-inf` is allowed, `inf` and NaN are not."""
        word = self._next(expected)
        if not _NUMBER.fullmatch(word):
            raise self.error(f"expected {expected}, found {shown(word)}")
        value = float(word)
        if not low <= value <= high:
            limit = f" of at least {low:g}" if low > -math.inf and value < low else ""
            limit = limit or " (a finite number)" * (high == sys.float_info.max) or f" of at most {high:g}"
            raise self.error(f"expected {expected}{limit}, found {shown(word)}")
        return value

    def require(self, count: int, what: str) -> None:
        """Raise `FormatError` if the rest of the file is too short for `count` more words.

        Call it before allocating memory for a count in the file: a header may announce 10^12 entries.
        """
        left = len(self._data) - self._stop
        if count > (left + 1) // 2:  # a word takes a character and a separator
            raise self.error(f"expected {count} {what}, found only {left} more bytes in the file")

    def end(self) -> None:
        """Raise `FormatError` if any word is left."""
        if (word := self.peek()) is not None:
            self._next("")
            raise self.error(f"expected {self._end}, found {shown(word)}")

    def _next(self, expected: str) -> bytes:
        found = self._match(self._data, self._stop)
        if found is None:
            raise self.error(f"expected {expected}, found {self._end}")
        self._start, self._stop = found.span(1)
        return found[1]


def first_repeated(values: Sequence[_T]) -> _T | None:
    """Return the first value that occurs more than once, or None if all values differ."""
    counts = Counter(values)
    return next((value for value in values if counts[value] > 1), None)


def first_word(data: bytes) -> tuple[bytes, int]:
    """Return the first word of a file, empty if it has no words, and the offset where the word ends."""
    match = _FIRST_WORD.match(data)
    assert match is not None  # the pattern matches any text
    return match[1], match.end(1)


def _range(low: int | None, high: int | None) -> str:
    if low is not None and high is not None:
        return f"from {low} to {high}"
    if low is not None:
        return f"of at least {low}"
    return f"of at most {high}" if high is not None else "that fits into 64 bits"
