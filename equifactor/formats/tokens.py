"""Tokens of formats with brackets and quoted names, with line numbers for errors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import islice
from typing import NoReturn

from equifactor.base.errors import FormatError, brief

# A quote that is never closed matches up to the end of the file. Otherwise every following quote would be tried as the
# start of a string, which takes quadratic time.
_QUOTED = r'"(?:[^"\\]|\\[\s\S])*+"?'
_MAX_BYTES = 2**28  # The largest size of a file, in bytes: its tokens take about twenty times the memory.
_MAX_MESSAGE = 400  # The largest number of characters of an error message. Chosen by hand.


class TokenStream:
    """The words, quoted strings and brackets of a text, one after the other. Errors begin with `FILE:LINE:`.

    Args:
        data: the whole file.
        where: its name in errors.
        comments: patterns of comments, which are skipped like white space.
        brackets: characters that are tokens by themselves.

    Attributes:
        num_bytes: the size of the file.
        all: the tokens, with their quotes.
        at: the index of the next token.
    """

    def __init__(self, data: bytes, where: str, comments: tuple[str, ...], brackets: str) -> None:
        if len(data) > _MAX_BYTES:
            raise FormatError(
                f"{where}: the file has more than 256 MiB of text, the limit of this format. "
                "Store the model as a .uai file."
            )
        try:
            self._text = data.decode("utf-8")
        except UnicodeDecodeError:  # older tools write Latin-1
            self._text = data.decode("latin-1")
        # A comment matches first and has no group, so findall gives an empty string for it.
        marks = re.escape(brackets)
        self._pattern = re.compile("|".join((*comments, f'({_QUOTED}|[{marks}]|[^\\s{marks}"]+)')))
        self._brackets = brackets
        self.where, self.num_bytes = where, len(data)
        self.all: list[str] = [t for t in self._pattern.findall(self._text) if t]
        self.at = 0

    def line(self, index: int | None = None) -> int:
        """Return the line of a token, by default of the last token read. Cost O(size of the file)."""
        index = max(0, self.at - 1) if index is None else index
        if not self.all:
            return 1
        found = (m.start() for m in self._pattern.finditer(self._text) if m[1])
        start = next(islice(found, index, None), len(self._text))
        return self._text.count("\n", 0, start) + 1

    def error(self, message: str, index: int | None = None) -> FormatError:
        """Return an error at a token, by default at the last token read, for the caller to raise."""
        return FormatError(f"{self.where}:{self.line(index)}: {one_line(message)}")

    def peek(self) -> str | None:
        """Return the next token without reading it, or None at the end of the file."""
        return self.all[self.at] if self.at < len(self.all) else None

    def next(self, expected: str) -> str:
        """Read and return the next token; `expected` describes it in errors."""
        if self.at >= len(self.all):
            self._fail(expected)
        self.at += 1
        return self.all[self.at - 1]

    def expect(self, *tokens: str) -> None:
        """Read these tokens. Raise `FormatError` at the first token that differs."""
        for token in tokens:
            if self.peek() != token:
                self._fail(f"'{token}'")
            self.at += 1

    def skip(self, token: str) -> bool:
        """Read a token if it comes next, and return whether it was read."""
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def name(self, expected: str) -> str:
        """Read the next token as a name and return it without quotes."""
        token = self.next(expected)
        if token in self._brackets:
            self.at -= 1
            self._fail(expected)
        return unquoted(token)

    def names_until(self, end: str, expected: str) -> list[str]:
        """Read the names up to and including the token `end`, with or without commas between them."""
        found = []
        while not self.skip(end):
            found.append(self.name(f"{expected} or '{end}'"))
            self.skip(",")
        return found

    def child_and_parents(self, expected: str) -> tuple[str, list[str], int]:
        """Read `(child | parents)` or `(child)`: the names, and the index of the child's token.

        Several children are an error.
        """
        self.expect("(")
        child, index = self.name(expected), self.at - 1
        if self.skip("|"):
            return child, self.names_until(")", "a parent"), index
        self.expect(")")
        return child, [], index

    def skip_past(self, end: str) -> None:
        """Skip all tokens up to and including the next `end`."""
        try:
            self.at = self.all.index(end, self.at) + 1
        except ValueError:
            self.at = len(self.all)
            self._fail(f"'{end}'")

    def until(self, end: str) -> list[str]:
        """Read all tokens up to and including the next `end`, and return the tokens before `end`."""
        first = self.at
        self.skip_past(end)
        return self.all[first : self.at - 1]

    def lazy_line(self, index: int) -> Callable[[], int]:
        """Return a function that finds the line of a token when it is called."""
        return lambda: self.line(index)

    def number(self, expected: str, valid: Callable[[float], bool] = math.isfinite) -> float:
        """Read the next token, which may be quoted, as a number."""
        token = unquoted(self.next(expected))
        if not is_number(token, valid):
            raise self.error(f"expected {expected}, found {brief(token)}")
        return float(token)

    def numbers(self, tokens: list[str], what: str, valid: Callable[[float], bool] = math.isfinite) -> list[float]:
        """Return the tokens that were just read as numbers, without the commas between them."""
        try:
            values = [float(t) for t in tokens if t != ","]
            text = "".join(tokens)
            fine = all(map(valid, values)) and text.isascii() and "_" not in text
        except ValueError:
            fine = False
        if not fine:
            first = self.at - 1 - len(tokens)
            for n, token in enumerate(tokens):
                if token != "," and not is_number(token, valid):
                    raise self.error(f"expected {what}, found {brief(token)}", first + n)
        return values

    def skip_block(self) -> None:
        """Skip a block in braces, which begins at the next token; blocks may be nested."""
        self.expect("{")
        depth = 1
        while depth:
            token = self.next("'}'")
            depth += (token == "{") - (token == "}")

    def _fail(self, expected: str) -> NoReturn:
        found = "the end of the file" if self.at >= len(self.all) else brief(self.all[self.at])
        raise self.error(f"expected {expected}, found {found}", min(self.at, len(self.all) - 1))


def one_line(message: str) -> str:
    """Return a message on one line and of bounded length, whatever names it contains.

    Examples:
        >>> one_line("found 'a\\nb'")
        "found 'a b'"
    """
    line = "".join(c if c.isprintable() else " " for c in message)
    line = " ".join(line.split())
    return line if len(line) <= _MAX_MESSAGE else f"{line[:_MAX_MESSAGE]}..."


def unquoted(token: str) -> str:
    """Return a name without its quotes."""
    if len(token) >= 2 and token[0] == token[-1] == '"':
        return re.sub(r"\\(.)", r"\1", token[1:-1])
    return token


def is_number(token: str, valid: Callable[[float], bool] = math.isfinite) -> bool:
    """Return whether a token is a number for which `valid` holds."""
    try:  # Python also reads 1_000 and digits of other scripts as numbers
        return token.isascii() and "_" not in token and valid(float(token))
    except ValueError:
        return False


def quoted(name: str) -> str:
    """Return a name in quotes, with a backslash before each quote and backslash in it."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
