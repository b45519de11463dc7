"""Settings of solvers, networks and training runs: how they are declared, checked, read from text and printed.

A setting is a field of a frozen dataclass made by `option`. Its text form is `name=value`, and a solver with its
settings is written `bp(damping=0.5, iterations=50)`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from equifactor.base.errors import OptionError, brief

if TYPE_CHECKING:
    from equifactor.solving.solver import Solver

_ARGUMENT = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,])+""")  # This reaches to the next comma outside of quotes.
_COMPARED_NAMES = 10_000  # A longer list is not looked through for names like a wrong one.
_QUOTED = re.compile(r""""[^"]*"|'[^']*'""")


def option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    below: float | None = None,
) -> Any:
    """A field of a dataclass of settings.

    Args:
        default: the value where none is given.
        help: one line that says what the setting does.
        low: the smallest value allowed.
        high: the largest value allowed.
        below: a bound that every value must stay below.
    """
    return dataclasses.field(default=default, metadata={"help": help, "low": low, "high": high, "below": below})


# ---- text -----------------------------------------------------------------------------------------------


def parse_value(text: str) -> Any:
    """A number, true, false, none, or the text itself; text in quotes is text."""
    if _QUOTED.fullmatch(text):
        return text[1:-1]
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def format_value(value: Any) -> str:
    """The text that `parse_value` reads as this value; of a value that no option has, what errors show of it."""
    if not isinstance(value, (str, int, float, type(None))):
        return brief(value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and (parse_value(value) != value or value != value.strip() or re.search("[,'\"]", value)):
        quote = "'" if '"' in value else '"'
        return f"{quote}{value}{quote}"
    return f"{value!r}" if isinstance(value, float) or value == "" else str(value)


def parse_options(owner: str, text: str) -> dict[str, Any]:
    """The settings in `damping=0.5, iterations=50`; a bare word switches an option on.

    Args:
        owner: whose settings they are, for messages.
        text: what stands between the brackets.
    """
    settings: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in _ARGUMENT.findall(text))):
        key, equals, value = (p.strip() for p in part.partition("="))
        if key in settings:
            raise OptionError(f"{owner} is given {key} twice")
        settings[key] = parse_value(value) if equals else True
    return settings


def format_solver(solver: Solver) -> str:
    """The text form with the settings that differ from the defaults; it parses back to an equal solver."""
    changed = [
        f"{f.name}={format_value(getattr(solver, f.name))}"
        for f in dataclasses.fields(solver)
        if getattr(solver, f.name) != f.default
    ]
    return solver.name + (f"({', '.join(changed)})" if changed else "")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The question `did you mean damping? ` in a message about an unknown word; empty where no known one is near."""
    import difflib

    by_case = {name.casefold(): name for name in itertools.islice(known, _COMPARED_NAMES)}
    close = difflib.get_close_matches(word.casefold(), by_case, n=1)
    return f"did you mean {by_case[close[0]]}? " if close else ""


def choices(word: str, known: Sequence[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, and all of them."""
    return f"{did_you_mean(word, known)}choose from: {', '.join(known) or '(none)'}"


# ---- checks ---------------------------------------------------------------------------------------------


def check_names(owner: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise `OptionError` for the first given name of an option that the owner does not have."""
    for name in given:
        if name not in known:
            raise OptionError(f"{owner} has no option {name!r}; {choices(name, known)}")


def check_options(settings: Any) -> None:
    """Check the type and range of every field of a dataclass; whole floats become ints where an int is wanted."""
    cls: type = type(settings)
    hints = _hints(cls)
    for f in dataclasses.fields(settings):
        value, hint = getattr(settings, f.name), hints[f.name]
        where = f"{getattr(settings, 'name', type(settings).__name__)}: {f.name}"
        if not _fits(value, hint):
            if int in _members(hint) and isinstance(value, float) and value.is_integer():
                value = int(value)
                object.__setattr__(settings, f.name, value)
            else:
                words = [
                    str(word) for m in _members(hint) if typing.get_origin(m) is Literal for word in typing.get_args(m)
                ]
                near = did_you_mean(value, words).rstrip() if isinstance(value, str) else ""
                end = f"; {near}" if near else ""
                raise OptionError(f"{where} must be {_describe(hint)}, found {format_value(value)}{end}")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            _check_range(where, value, f.metadata)


def _check_range(where: str, value: float, meta: Mapping[str, Any]) -> None:
    low, high, below = meta.get("low"), meta.get("high"), meta.get("below")
    ok = (
        value == value  # NaN is outside every range
        and (low is None or value >= low)
        and (high is None or value <= high)
        and (below is None or value < below)
    )
    if not ok:
        bounds = [f"at least {low}" if low is not None else "", f"at most {high}" if high is not None else ""]
        bounds.append(f"below {below}" if below is not None else "")
        raise OptionError(f"{where} must be {' and '.join(filter(None, bounds))}, found {value}")


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _members(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    for member in _members(hint):
        if typing.get_origin(member) is Literal:
            if value in typing.get_args(member):
                return True
        elif member is float:
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return True
        elif member is int:
            if isinstance(value, int) and not isinstance(value, bool):
                return True
        elif isinstance(member, type) and isinstance(value, member):
            return True
    return False


def _describe(hint: Any) -> str:
    """A type in plain words."""
    plain = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a word",
        type(None): "none",
    }
    members = _members(hint)
    if any(typing.get_origin(m) is Literal and "none" in typing.get_args(m) for m in members):
        members = tuple(m for m in members if m is not type(None))  # the word says it
    words = [
        "one of " + ", ".join(map(str, typing.get_args(m))) if typing.get_origin(m) is Literal else plain.get(m, str(m))
        for m in members
    ]
    return " or ".join(words)
