"""A parser that turns the tokens of a `.cfn` file into variables and cost functions; cfn.py builds the graph."""

from __future__ import annotations

import json
import math
import re
from array import array
from dataclasses import dataclass

import numpy as np

from equifactor.base.errors import FormatError, brief
from equifactor.base.number_text import count_text, table_size
from equifactor.base.read_limits import limit_text, most_numbers
from equifactor.base.typing import FloatArray
from equifactor.formats.dense_tables import ListedValues
from equifactor.formats.tokens import TokenStream, is_number
from equifactor.formats.words import first_repeated

_CLOSING = {"{": "}", "[": "]"}
_BRACKETS = frozenset("{}[]")
_SEPARATORS = (",", ":")
_BOUND = re.compile(r"([<>])\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)")
_KEYS = ("scope", "defaultcost", "costs")


@dataclass(frozen=True)
class TokenPosition:
    """The position of a token, for errors. Its line is found only when the position is printed."""

    tokens: TokenStream
    index: int

    @property
    def line(self) -> object:
        """The position itself, which prints as its line."""
        return self

    def __str__(self) -> str:
        return str(self.tokens.line(self.index))

    def error(self, message: str) -> FormatError:
        """Return an error at this token, for the caller to raise."""
        return self.tokens.error(message, self.index)


@dataclass(frozen=True, eq=False)
class CfnFunction:
    """A cost function: its scope, and its costs or the name of the function whose costs it reuses."""

    position: TokenPosition
    scope: list[int]
    listed: ListedValues | FloatArray | str


class CfnParser:
    """A parser that reads the tokens of a file in one pass.

    Attributes:
        variables: the number of each variable by its name.
        named: whether the file names its variables; otherwise their names are x0, x1, ..
        states: the names of the values of each variable, or None if the file has only their number.
        card: the number of values of each variable.
        functions: the cost functions by name.
        maximise: whether the sum of the costs is maximised rather than minimised.
        bound: a tuple is forbidden if its cost reaches this bound; infinite if the file has no bound.
    """

    def __init__(self, tokens: TokenStream) -> None:
        self.tokens = tokens
        self.variables: dict[str, int] = {}
        self.states: list[list[str] | None] = []
        self.number_of_state: list[dict[str, int]] = []
        self.card: list[int] = []
        self.named = False
        self.functions: dict[str, CfnFunction] = {}

        self.maximise, self.bound = False, math.inf
        self._num_states = 0

    def read(self) -> None:
        """Read the whole file. Raises `FormatError`."""
        tokens = self.tokens
        end = self._open("'{'")
        for key in ("problem", "variables", "functions"):
            self._skip_separators()
            if tokens.name(f"'{key}'") != key:
                raise tokens.error(f"expected '{key}', found '{tokens.all[tokens.at - 1][:40]}'")
            self._skip_separators()
            if key == "problem":
                self._problem()
            elif key == "variables":
                self._variables()
            else:
                self._functions()
        self._skip_separators()
        if tokens.peek() is not None:  # toulbar2 does not require the last bracket, and its own examples lack it
            tokens.expect(end)
        if tokens.peek() is not None:
            raise tokens.error(f"expected the end of the file, found '{tokens.all[tokens.at][:40]}'", tokens.at)

    def _skip_separators(self) -> None:
        while self.tokens.peek() in _SEPARATORS:
            self.tokens.at += 1

    def _open(self, expected: str) -> str:
        """Read an opening bracket of either shape and return the bracket that closes it."""
        if self.tokens.peek() not in _CLOSING:
            self.tokens.expect(expected.strip("'"))
        return _CLOSING[self.tokens.next(expected)]

    def _closed(self, end: str) -> bool:
        self._skip_separators()
        return self.tokens.skip(end)

    def _list(self) -> list[str]:
        """Read a flat list and return its tokens with their quotes."""
        end = self._open("'['")
        words = [t for t in self.tokens.until(end) if t not in _SEPARATORS]
        if not _BRACKETS.isdisjoint(words):
            raise self.tokens.error(f"expected a list without inner brackets that ends with '{end}', found a bracket")
        return words

    def _problem(self) -> None:
        first = self.tokens.at
        words = [_plain(t) for t in self._list()]
        if words[:1] == ["name"] or words[:1] == ["mustbe"]:
            words = [dict(zip(words[::2], words[1::2], strict=False)).get(key, "") for key in ("name", "mustbe")]
        if len(words) < 2 or not words[1]:
            return
        found = _BOUND.fullmatch(words[1])
        try:
            bound = float(found[2]) if found else math.nan
        except ValueError:
            bound = math.nan
        if found is None or not math.isfinite(bound):
            raise self.tokens.error(f'expected a bound as in "<10.5" or ">0", found \'{words[1][:40]}\'', first)
        self.maximise, self.bound = found[1] == ">", bound

    def _variables(self) -> None:
        tokens = self.tokens
        end = self._open("'{'")
        while not self._closed(end):
            first = tokens.next("a variable")
            index = tokens.at - 1
            unnamed = first in _CLOSING or (_is_whole(first) and tokens.peek() != ":")
            if unnamed:
                tokens.at -= 1
            self.named |= not unnamed
            name = f"x{len(self.card)}" if unnamed else _plain(first)
            if name in self.variables:
                raise tokens.error(f"the file declares variable '{name[:40]}' twice.", index)
            self.variables[name] = len(self.card)
            self._skip_separators()
            self._domain(name)

    def _domain(self, name: str) -> None:
        tokens = self.tokens
        states: list[str] | None = None
        if tokens.peek() in _CLOSING:
            states = [_plain(t) for t in self._list()]
            if (twice := first_repeated(states)) is not None:
                raise tokens.error(f"variable '{name[:40]}' has the value '{twice[:40]}' twice; values must differ.")
        else:
            word = _plain(tokens.next(f"the values of '{name[:40]}' or their number"))
            if not _is_whole(word) or len(word) > 18:
                raise tokens.error(f"expected the values of '{name[:40]}' or their number, found '{word[:40]}'")
            if int(word) < 0:
                raise tokens.error(f"variable '{name[:40]}' has an interval ({word[:40]}), which is not supported.")
        card = int(word) if states is None else len(states)
        if card == 0:
            raise tokens.error(f"variable '{name[:40]}' has 0 values. A variable needs at least one value.")
        self._num_states += card
        if self._num_states > most_numbers(tokens.num_bytes):
            raise tokens.error(f"variable '{name[:40]}' has {card} values. {limit_text()}")
        self.card.append(card)
        self.states.append(states)
        self.number_of_state.append({s: k for k, s in enumerate(states or ())})

    def _functions(self) -> None:
        end = self._open("'{'")
        while not self._closed(end):
            position = TokenPosition(self.tokens, self.tokens.at)
            name = f" {len(self.functions)}"  # differs from all names in the file, which have no spaces
            if self.tokens.peek() not in _CLOSING:
                name = _plain(self.tokens.next("a cost function"))
                self._skip_separators()
            if name in self.functions:
                raise position.error(f"the file has two cost functions '{name[:40]}'. Rename one of them.")
            self.functions[name] = self._function(position, name[:40].strip())

    def _function(self, position: TokenPosition, name: str) -> CfnFunction:
        tokens = self.tokens
        end = self._open("'{'")
        scope: list[int] | None = None
        default: float | None = None
        listed: ListedValues | FloatArray | str | None = None
        while not self._closed(end):
            word = _plain(tokens.next(f"the scope or the costs of '{name}'"))
            if word in ("type", "params"):
                raise tokens.error(f"cost function '{name}' has '{word}' instead of costs, which is not supported.")
            if word in _KEYS:
                self._skip_separators()
            else:  # the fields have no names and come in their fixed order
                tokens.at -= 1
                word = "scope" if scope is None else "costs" if word in _CLOSING else "defaultcost"
            if word == "scope":
                scope = self._scope(name)
            elif scope is None:
                raise tokens.error(f"cost function '{name}' has no scope before its costs. Write the scope first.")
            elif word == "defaultcost":
                default = tokens.number(f"the default cost of '{name}'")
            elif tokens.peek() not in _CLOSING:
                listed = _plain(tokens.next(f"the costs of '{name}'"))
            else:
                listed = self._dense(name, scope) if default is None else self._tuples(name, scope, default)
        if scope is None or listed is None:
            missing = "scope" if scope is None else "costs"
            raise position.error(f"cost function '{name}' has no {missing}.")
        return CfnFunction(position, scope, listed)

    def _costs(self, words: list[str], first: int, step: int, name: str) -> FloatArray:
        """Return every `step`-th word, from the word `first` on, of the list that was just read, as a number."""
        picked = [_plain(word) for word in words[first::step]]
        try:
            costs = np.array([float(word) for word in picked])
        except ValueError:
            costs = np.array([np.nan])
        text = "".join(picked)
        if np.all(np.isfinite(costs)) and text.isascii() and "_" not in text:
            return costs
        n = first + step * next(n for n, word in enumerate(picked) if not is_number(word))
        raise self.tokens.error(f"expected a cost of '{name}', found {brief(words[n])}", self._index(n))

    def _index(self, n: int) -> int:
        """Return the index of the token of the n-th word of the list that was just read."""
        tokens = self.tokens
        start = tokens.at - 2
        while tokens.all[start] not in _CLOSING:  # lists are flat
            start -= 1
        return [at for at in range(start + 1, tokens.at) if tokens.all[at] not in _SEPARATORS][n]

    def _scope(self, name: str) -> list[int]:
        scope: dict[int, None] = {}
        for token in self._list():
            word = _plain(token)
            i = self.variables.get(word)
            if i is None and _is_whole(word) and len(word) < 18 and 0 <= int(word) < len(self.card):
                i = int(word)
            if i is None:
                raise self.tokens.error(
                    f"the scope of '{name}' names variable '{word[:40]}', which the file does not declare."
                )
            if i in scope:
                raise self.tokens.error(f"the scope of '{name}' names variable '{word[:40]}' twice.")
            scope[i] = None
        return list(scope)

    def _dense(self, name: str, scope: list[int]) -> FloatArray:
        words = self._list()
        size = table_size(self.card[i] for i in scope)
        if len(words) != size:
            raise self.tokens.error(f"expected {count_text(size)} costs of '{name}', found {len(words)}")
        return self._costs(words, 0, 1, name)

    def _tuples(self, name: str, scope: list[int], default: float) -> ListedValues:
        tokens = self.tokens
        words = self._list()
        shape = tuple(self.card[i] for i in scope)
        if len(words) % (len(scope) + 1):
            raise tokens.error(
                f"the costs of '{name}' are {len(words)} words, not a multiple of {len(scope) + 1}. Each tuple needs "
                "a value of every variable and a cost."
            )
        costs = self._costs(words, len(scope), len(scope) + 1, name)
        states = array("q")
        entries: dict[int, None] = {}  # indices in the flat table, Python integers of any size
        for n in range(len(costs)):
            entry = 0
            for word, i in enumerate(scope, n * (len(scope) + 1)):
                state = self._state(i, words[word], word, name)
                states.append(state)
                entry = entry * self.card[i] + state
            entries[entry] = None
            if len(entries) <= n:
                raise tokens.error(f"tuple {n + 1} of '{name}' repeats an earlier tuple. List each tuple once.")
        listed = np.array(states, np.int64).reshape(len(costs), len(scope))
        return ListedValues(shape, default, listed, list(entries), costs)

    def _state(self, i: int, token: str, n: int, name: str) -> int:
        """Return a value of variable i by its name or number, the n-th word of a list; raise if it is ambiguous."""
        word = _plain(token)
        by_name = self.number_of_state[i].get(word)
        by_number = int(word) if _is_whole(word) and len(word) < 18 and 0 <= int(word) < self.card[i] else None
        if by_name is not None and by_number not in (None, by_name):
            raise self.tokens.error(
                f"the value '{word[:40]}' in '{name}' is ambiguous: it is the name of one value of variable {i} and "
                "the number of another.",
                self._index(n),
            )
        state = by_number if by_name is None else by_name
        if state is None:
            expected = f"one of the {self.card[i]} values of variable {i} in '{name}'"
            raise self.tokens.error(f"expected {expected}, found '{word[:40]}'", self._index(n))
        return state


def _plain(token: str) -> str:
    """Return a token without its quotes, with escapes as in JSON."""
    if token[:1] != '"':
        return token
    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        return token.strip('"')


def _is_whole(word: str) -> bool:
    return word.lstrip("+-").isdecimal() and word.lstrip("+-").isascii() and len(word) - len(word.lstrip("+-")) < 2
