"""The tokens of a `.cfn` file as variables and cost functions; cfn.py makes a graph of them."""

from __future__ import annotations

import json
import math
import re
from array import array
from dataclasses import dataclass

import numpy as np

from equifactor.base.errors import FormatError
from equifactor.base.typing import FloatArray
from equifactor.formats.dense_tables import MAX_ENTRIES, ListedValues
from equifactor.formats.tokens import TokenStream, is_number

_CLOSING = {"{": "}", "[": "]"}
_BRACKETS = frozenset("{}[]")
_SEPARATORS = (",", ":")
_BOUND = re.compile(r"([<>])\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)")
_KEYS = ("scope", "defaultcost", "costs")


@dataclass(frozen=True)
class FilePlace:
    """A token of a file, for errors; its line is found only when it is printed."""

    tokens: TokenStream
    place: int

    @property
    def line(self) -> object:
        """What prints as its line."""
        return self

    def __str__(self) -> str:
        return str(self.tokens.line(self.place))

    def error(self, message: str) -> FormatError:
        """An error at this place, to be raised by the caller."""
        return self.tokens.error(message, self.place)


@dataclass(frozen=True, eq=False)
class CfnFunction:
    """A cost function: its scope, and its costs or the name of the function that has them."""

    spot: FilePlace
    scope: list[int]
    listed: ListedValues | FloatArray | str


class CfnParser:
    """Reads the tokens of a file in one pass.

    Attributes:
        variables: their numbers by name; made-up names where the file has none, and then `named` is False.
        states: the names of the values of each, None where only their number is given.
        card: their numbers of values.
        functions: the cost functions by name.
        maximise: whether the sum of the costs is to be maximised.
        bound: the cost from which on a tuple is forbidden; infinite where there is none.
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
        if tokens.peek() is not None:  # toulbar2 does not miss the last bracket, and its own examples lack it
            tokens.expect(end)
        if tokens.peek() is not None:
            raise tokens.error("expected the end of the file, found more", tokens.at)

    def _skip_separators(self) -> None:
        while self.tokens.peek() in _SEPARATORS:
            self.tokens.at += 1

    def _open(self, expected: str) -> str:
        """Go past an opening bracket of either kind; the one that closes it."""
        if self.tokens.peek() not in _CLOSING:
            self.tokens.expect(expected.strip("'"))
        return _CLOSING[self.tokens.next(expected)]

    def _closed(self, end: str) -> bool:
        self._skip_separators()
        return self.tokens.skip(end)

    def _list(self) -> list[str]:
        """The tokens of a flat list, with their quotes."""
        end = self._open("'['")
        words = [t for t in self.tokens.until(end) if t not in _SEPARATORS]
        if not _BRACKETS.isdisjoint(words):
            raise self.tokens.error(f"expected a list without brackets in it, which ends with '{end}'")
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
            place = tokens.at - 1
            unnamed = first in _CLOSING or (_is_whole(first) and tokens.peek() != ":")
            if unnamed:
                tokens.at -= 1
            self.named |= not unnamed
            name = f"x{len(self.card)}" if unnamed else _plain(first)
            if name in self.variables:
                raise tokens.error(f"expected each variable once, found '{name[:40]}' again", place)
            self.variables[name] = len(self.card)
            self._skip_separators()
            self._domain(name)

    def _domain(self, name: str) -> None:
        tokens = self.tokens
        states: list[str] | None = None
        if tokens.peek() in _CLOSING:
            states = [_plain(t) for t in self._list()]
            if len(set(states)) < len(states):
                raise tokens.error(f"expected different values of '{name[:40]}', found one twice")
        else:
            word = _plain(tokens.next(f"the values of '{name[:40]}', or their number"))
            if not _is_whole(word) or len(word) > 18:
                raise tokens.error(f"expected the values of '{name[:40]}', or their number, found '{word[:40]}'")
            if int(word) < 0:
                raise tokens.error(f"expected values of '{name[:40]}', found an interval, which is not supported")
        card = int(word) if states is None else len(states)
        if card == 0 or sum(self.card) + card > MAX_ENTRIES:
            raise tokens.error(f"expected at least one and at most {MAX_ENTRIES} values, found {card} of '{name[:40]}'")
        self.card.append(card)
        self.states.append(states)
        self.number_of_state.append({s: k for k, s in enumerate(states or ())})

    def _functions(self) -> None:
        end = self._open("'{'")
        while not self._closed(end):
            spot = FilePlace(self.tokens, self.tokens.at)
            name = f" {len(self.functions)}"  # no name has a space
            if self.tokens.peek() not in _CLOSING:
                name = _plain(self.tokens.next("a cost function"))
                self._skip_separators()
            if name in self.functions:
                raise spot.error(f"expected each cost function once, found '{name[:40]}' again")
            self.functions[name] = self._function(spot, name[:40].strip())

    def _function(self, spot: FilePlace, name: str) -> CfnFunction:
        tokens = self.tokens
        end = self._open("'{'")
        scope: list[int] | None = None
        default: float | None = None
        listed: ListedValues | FloatArray | str | None = None
        while not self._closed(end):
            word = _plain(tokens.next(f"the scope or the costs of '{name}'"))
            if word in ("type", "params"):
                raise tokens.error(f"expected the costs of '{name}', found a function by type, which is not supported")
            if word in _KEYS:
                self._skip_separators()
            else:  # fields without names, in their order
                tokens.at -= 1
                word = "scope" if scope is None else "costs" if word in _CLOSING else "defaultcost"
            if word == "scope":
                scope = self._scope(name)
            elif scope is None:
                raise tokens.error(f"expected the scope of '{name}' before its costs, found none")
            elif word == "defaultcost":
                default = tokens.number(f"the default cost of '{name}'")
            elif tokens.peek() not in _CLOSING:
                listed = _plain(tokens.next(f"the costs of '{name}'"))
            else:
                listed = self._dense(name, scope) if default is None else self._tuples(name, scope, default)
        if scope is None or listed is None:
            raise spot.error(f"expected the scope and the costs of '{name}', found none")
        return CfnFunction(spot, scope, listed)

    def _costs(self, words: list[str], first: int, step: int, name: str) -> FloatArray:
        """Every `step`-th of the words of a list that was just read, as numbers."""
        picked = [_plain(word) for word in words[first::step]]
        try:
            costs = np.array([float(word) for word in picked])
        except ValueError:
            costs = np.array([np.nan])
        if np.all(np.isfinite(costs)) and "_" not in "".join(picked):
            return costs
        n = first + step * next(n for n, word in enumerate(picked) if not is_number(word))
        raise self.tokens.error(f"expected a cost of '{name}', found '{words[n]}'", self._place(n))

    def _place(self, n: int) -> int:
        """The place of the n-th word of the list that was just read."""
        tokens = self.tokens
        start = tokens.at - 2
        while tokens.all[start] not in _CLOSING:  # lists are flat
            start -= 1
        return [at for at in range(start + 1, tokens.at) if tokens.all[at] not in _SEPARATORS][n]

    def _scope(self, name: str) -> list[int]:
        scope = []
        for token in self._list():
            word = _plain(token)
            i = self.variables.get(word)
            if i is None and _is_whole(word) and len(word) < 18 and 0 <= int(word) < len(self.card):
                i = int(word)
            if i is None:
                raise self.tokens.error(f"expected variables of '{name}' that the file declares, found '{word[:40]}'")
            if i in scope:
                raise self.tokens.error(f"expected different variables of '{name}', found '{word[:40]}' twice")
            scope.append(i)
        return scope

    def _dense(self, name: str, scope: list[int]) -> FloatArray:
        words = self._list()
        size = math.prod(self.card[i] for i in scope)
        if len(words) != size:
            raise self.tokens.error(f"expected {size} costs of '{name}', found {len(words)}")
        return self._costs(words, 0, 1, name)

    def _tuples(self, name: str, scope: list[int], default: float) -> ListedValues:
        tokens = self.tokens
        words = self._list()
        shape = tuple(self.card[i] for i in scope)
        if len(words) % (len(scope) + 1):
            raise tokens.error(
                f"expected tuples of {len(scope)} values and a cost in '{name}', found {len(words)} words"
            )
        costs = self._costs(words, len(scope), len(scope) + 1, name)
        states = array("q")
        at: dict[int, None] = {}  # places in the table, Python numbers of any size
        for n in range(len(costs)):
            entry = 0
            for place, i in enumerate(scope, n * (len(scope) + 1)):
                state = self._state(i, words[place], place, name)
                states.append(state)
                entry = entry * self.card[i] + state
            at[entry] = None
            if len(at) <= n:
                raise tokens.error(f"expected each tuple of '{name}' once, found number {n + 1} again")
        return ListedValues(shape, default, np.array(states, np.int64).reshape(len(costs), len(scope)), list(at), costs)

    def _state(self, i: int, token: str, n: int, name: str) -> int:
        """A value of a variable by its name or number, the n-th word of a list; one that could be both is refused."""
        word = _plain(token)
        by_name = self.number_of_state[i].get(word)
        by_number = int(word) if _is_whole(word) and len(word) < 18 and 0 <= int(word) < self.card[i] else None
        if by_name is not None and by_number not in (None, by_name):
            found = f"'{word[:40]}', which is the name of one and the number of another"
            raise self.tokens.error(f"expected a value of one meaning in '{name}', found {found}", self._place(n))
        state = by_number if by_name is None else by_name
        if state is None:
            expected = f"one of the {self.card[i]} values of variable {i} in '{name}'"
            raise self.tokens.error(f"expected {expected}, found '{word[:40]}'", self._place(n))
        return state


def _plain(token: str) -> str:
    """A token without its quotes, read as JSON reads it."""
    if token[:1] != '"':
        return token
    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        return token.strip('"')


def _is_whole(word: str) -> bool:
    return word.lstrip("+-").isdecimal() and word.lstrip("+-").isascii() and len(word) - len(word.lstrip("+-")) < 2
