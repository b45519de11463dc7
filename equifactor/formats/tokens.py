"""The tokens of formats with brackets and quoted names, with line numbers for errors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import islice
from typing import NoReturn

from equifactor.base.errors import FormatError, brief

# An open quote runs to the end of the file: were it no match, each later one would be tried as the start of another.
_QUOTED = r'"(?:[^"\\]|\\[\s\S])*+"?'
_MAX_BYTES = 2**28  # The tokens of a file take about twenty times its size in memory.
_MAX_SENTENCE = 400  # characters of an error


class TokenStream:
    """Words, quoted strings and brackets of a text, one after the other; complaints read `FILE:LINE: ..`.

    Args:
        data: the whole file.
        where: its name in errors.
        comments: patterns of what is skipped beside white space.
        brackets: characters that are tokens of their own.

    Attributes:
        all: the tokens, quotes kept.
        at: the place of the next one.
    """

    def __init__(self, data: bytes, where: str, comments: tuple[str, ...], brackets: str) -> None:
        if len(data) > _MAX_BYTES:
            raise FormatError(f"{where}: has more than 256 MiB of text; a model of that size belongs in a .uai file")
        try:
            self._text = data.decode("utf-8")
        except UnicodeDecodeError:  # older tools write the letters of western Europe as single bytes
            self._text = data.decode("latin-1")
        # A comment matches first and has no group, so that it leaves an empty string.
        marks = re.escape(brackets)
        self._pattern = re.compile("|".join((*comments, f'({_QUOTED}|[{marks}]|[^\\s{marks}"]+)')))
        self._brackets = brackets
        self.where = where
        self.all: list[str] = [t for t in self._pattern.findall(self._text) if t]
        self.at = 0

    def line(self, place: int | None = None) -> int:
        """The line of a token, by default of the last one read; costs a walk through the file."""
        place = max(0, self.at - 1) if place is None else place
        if not self.all:
            return 1
        found = (m.start() for m in self._pattern.finditer(self._text) if m[1])
        start = next(islice(found, place, None), len(self._text))
        return self._text.count("\n", 0, start) + 1

    def error(self, message: str, place: int | None = None) -> FormatError:
        """An error at a token, by default the last one read, to be raised by the caller."""
        return FormatError(f"{self.where}:{self.line(place)}: {sentence(message)}")

    def peek(self) -> str | None:
        """The next token, left in place; None at the end of the file."""
        return self.all[self.at] if self.at < len(self.all) else None

    def next(self, expected: str) -> str:
        """The next token; `expected` says what it should be."""
        if self.at >= len(self.all):
            self._fail(expected)
        self.at += 1
        return self.all[self.at - 1]

    def expect(self, *tokens: str) -> None:
        """Go past these tokens."""
        for token in tokens:
            if self.peek() != token:
                self._fail(f"'{token}'")
            self.at += 1

    def skip(self, token: str) -> bool:
        """Go past a token if it is next; whether it was."""
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def name(self, expected: str) -> str:
        """The next token as a name, without quotes."""
        token = self.next(expected)
        if token in self._brackets:
            self.at -= 1
            self._fail(expected)
        return unquoted(token)

    def names_until(self, end: str, expected: str) -> list[str]:
        """Names up to a token, which is passed, with or without commas between them."""
        found = []
        while not self.skip(end):
            found.append(self.name(f"{expected} or '{end}'"))
            self.skip(",")
        return found

    def child_and_parents(self, expected: str) -> tuple[str, list[str], int]:
        """The names in `(child | parents)` or `(child)`, and the place of the child; several children are an error."""
        self.expect("(")
        child, place = self.name(expected), self.at - 1
        if self.skip("|"):
            return child, self.names_until(")", "a parent"), place
        self.expect(")")
        return child, [], place

    def skip_past(self, end: str) -> None:
        """Go past the next `end`."""
        try:
            self.at = self.all.index(end, self.at) + 1
        except ValueError:
            self.at = len(self.all)
            self._fail(f"'{end}'")

    def until(self, end: str) -> list[str]:
        """All tokens up to the next `end`, which is passed."""
        first = self.at
        self.skip_past(end)
        return self.all[first : self.at - 1]

    def later(self, place: int | None = None) -> Callable[[], int]:
        """The line of a token, found when it is called for; by default of the last one read."""
        place = max(0, self.at - 1) if place is None else place
        return lambda: self.line(place)

    def number(self, expected: str, valid: Callable[[float], bool] = math.isfinite) -> float:
        """The next token as a number, without quotes."""
        token = unquoted(self.next(expected))
        if not is_number(token, valid):
            raise self.error(f"expected {expected}, found {brief(token)}")
        return float(token)

    def numbers(self, tokens: list[str], what: str, valid: Callable[[float], bool] = math.isfinite) -> list[float]:
        """Tokens that were just read as numbers; commas between them are left out."""
        try:
            values = [float(t) for t in tokens if t != ","]
            fine = all(map(valid, values)) and "_" not in "".join(tokens)
        except ValueError:
            fine = False
        if not fine:
            first = self.at - 1 - len(tokens)
            for n, token in enumerate(tokens):
                if token != "," and not is_number(token, valid):
                    raise self.error(f"expected {what}, found {brief(token)}", first + n)
        return values

    def skip_block(self) -> None:
        """Go past a block in braces, the first of which is next; blocks may be nested."""
        self.expect("{")
        depth = 1
        while depth:
            token = self.next("'}'")
            depth += (token == "{") - (token == "}")

    def _fail(self, expected: str) -> NoReturn:
        found = "the end of the file" if self.at >= len(self.all) else brief(self.all[self.at])
        raise self.error(f"expected {expected}, found {found}", min(self.at, len(self.all) - 1))


def sentence(message: str) -> str:
    """A message on one line and of bounded length, whatever the names in it.

    Examples:
        >>> sentence("found 'a\\nb'")
        "found 'a b'"
    """
    line = "".join(c if c.isprintable() else " " for c in message)
    line = " ".join(line.split())
    return line if len(line) <= _MAX_SENTENCE else f"{line[:_MAX_SENTENCE]}..."


def unquoted(token: str) -> str:
    """A name without its quotes."""
    if len(token) >= 2 and token[0] == token[-1] == '"':
        return re.sub(r"\\(.)", r"\1", token[1:-1])
    return token


def is_number(token: str, valid: Callable[[float], bool] = math.isfinite) -> bool:
    """Whether a token is a number that is valid."""
    try:
        return "_" not in token and valid(float(token))  # Python reads 1_000 as a number
    except ValueError:
        return False


def quoted(name: str) -> str:
    """A name in quotes, with a backslash before the quotes and backslashes in it."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
