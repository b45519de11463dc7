"""Settings of solvers, methods, networks and training runs: how they are declared, checked, read from text and printed.

A setting is a field of a frozen dataclass, made by `option`. Its text form is `name=value`. A method is a frozen
dataclass with a name, and its text form is `bp(damping=0.5, iterations=50)`. `parse_method` reads the text form, with
further settings as keywords, and `format_method` prints it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from equifactor.base.errors import OptionError, brief

M = TypeVar("M")

NAME = r"[A-Za-z][\w-]*"  # The pattern of the name of a solver or method.
_METHOD_TEXT = re.compile(rf"\s*({NAME})\s*(?:\((.*)\))?\s*", re.DOTALL)
_ARGUMENT = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,])+""")  # The text up to the next comma that is not in quotes.
_QUOTED = re.compile(r""""[^"]*"|'[^']*'""")
_COMPARED_NAMES = 10_000  # A misspelt word is compared with this many known names, and no more. Chosen by hand.

_TOO_LARGE = 2**62  # Whole numbers from here on do not fit into the 64 bits of kernels and arrays.


def option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    below: float | None = None,
) -> Any:
    """Declare a field of a dataclass of settings.

    Args:
        default: the value if none is given.
        help: one line that says what the setting does.
        low: the smallest allowed value.
        high: the largest allowed value.
        below: a bound that every value must stay below.
    """
    return dataclasses.field(default=default, metadata={"help": help, "low": low, "high": high, "below": below})


# ---- methods and their text form ------------------------------------------------------------------------


def parse_method(
    spec: str | M, keywords: Mapping[str, Any], *, base: type[M], find: Callable[[str], type[M]], what: str
) -> M:
    """Return the method that a text describes, such as `bp(damping=0.5)`, with further settings as keywords.

    Args:
        spec: the text, or a method object, which is returned with the keywords in place of its own settings.
        keywords: settings that override those of the text.
        base: the class of all such methods.
        find: the class of a method by its name; raises `OptionError` for an unknown name.
        what: what the method is called in errors, such as `solver`.
    """
    if isinstance(spec, base):
        return replace_settings(spec, keywords)
    found = split_text(spec)
    if found is None:
        raise OptionError(
            f"Cannot read the {what} {brief(spec)}. Write its name, or its name with settings, as in name(setting=1)."
        )
    name, text = found
    cls = find(name)
    return make_method(cls, {**parse_options(name, text), **keywords})


def split_text(spec: object) -> tuple[str, str] | None:
    """Return the name and the text of the settings of `bp(damping=0.5)`; None for anything else."""
    match = _METHOD_TEXT.fullmatch(spec) if isinstance(spec, str) else None
    return (match[1], match[2] or "") if match else None


def make_method(cls: type[M], settings: Mapping[str, Any]) -> M:
    """Make a method of a class; raise `OptionError` for a setting that the class does not have."""
    check_names(cls.name, settings, _field_names(cls))  # type: ignore[attr-defined]
    return cls(**settings)


def replace_settings(method: M, keywords: Mapping[str, Any]) -> M:
    """Return a method with some settings replaced; raise `OptionError` for a setting that it does not have."""
    if not keywords:
        return method
    check_names(method.name, keywords, _field_names(type(method)))  # type: ignore[attr-defined]
    return dataclasses.replace(method, **keywords)  # type: ignore[type-var]


def format_method(method: Any) -> str:
    """Return the text form, with the settings that differ from the defaults; it parses back to an equal method."""
    given = {f.name: value for f in dataclasses.fields(method) if (value := getattr(method, f.name)) != f.default}
    return _with_brackets(str(getattr(method, "name", type(method).__name__)), given)


def with_settings(text: str, settings: Mapping[str, Any]) -> str:
    """Return a text form such as `bp(damping=0.5)` with these settings in addition to its own, or in their place."""
    name, own = split_text(text) or (text, "")
    return _with_brackets(name, {**parse_options(name, own), **settings})


def _with_brackets(name: str, settings: Mapping[str, Any]) -> str:
    if not settings:
        return name
    inside = ", ".join(f"{key}={format_value(value)}" for key, value in settings.items())
    return f"{name}({inside})"


def _field_names(cls: type) -> list[str]:
    return [f.name for f in dataclasses.fields(cls)]


# ---- settings and their text form -----------------------------------------------------------------------


def parse_value(text: str) -> Any:
    """Return a number, True, False, None, or the text itself; text in quotes is always text."""
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
    """Return the text that `parse_value` reads as this value; a short form of a value that no option can have."""
    if not isinstance(value, (str, int, float, type(None))):
        return brief(value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and (parse_value(value) != value or value != value.strip() or re.search("[,'\"]", value)):
        quote = "'" if '"' in value else '"'
        return f"{quote}{value}{quote}"
    return f"{value!r}" if isinstance(value, float) or value == "" else str(value)


def parse_options(owner: str, text: str) -> dict[str, Any]:
    """Return the settings in `damping=0.5, iterations=50`; a bare word switches an option on.

    Args:
        owner: whose settings they are, for errors.
        text: the text between the brackets.
    """
    settings: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in _ARGUMENT.findall(text))):
        key, equals, value = (p.strip() for p in part.partition("="))
        if key in settings:
            raise OptionError(f"{owner} is given {key} twice. Give it once.")
        settings[key] = parse_value(value) if equals else True
    return settings


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean damping? ` for a message about an unknown word; empty text if no known word is close."""
    import difflib

    if not isinstance(word, str):
        return ""
    by_case = {name.casefold(): name for name in itertools.islice(known, _COMPARED_NAMES) if isinstance(name, str)}
    close = difflib.get_close_matches(word.casefold(), by_case, n=1)
    return f"did you mean {by_case[close[0]]}? " if close else ""


def choices(word: str, known: Sequence[str]) -> str:
    """Return the end of a message about an unknown word: the closest known word, and all known words."""
    return f"{did_you_mean(word, known)}choose from: {', '.join(known) or '(none)'}"


# ---- checks ---------------------------------------------------------------------------------------------


def check_names(owner: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise `OptionError` for the first given name that is not an option of the owner."""
    for name in given:
        if name not in known:
            raise OptionError(f"{owner} has no option {brief(name)}; {choices(str(name), known)}")


def check_options(settings: Any) -> None:
    """Check the type and range of every field of a dataclass.

    A whole float becomes an int where an int is expected. A value becomes a word where its text form is one of the
    words expected: `osd=0` and `osd=none` mean the words `0` and `none`.
    """
    cls: type = type(settings)
    hints = _hints(cls)
    for f in dataclasses.fields(settings):
        value, hint = getattr(settings, f.name), hints[f.name]
        where = f"{getattr(settings, 'name', type(settings).__name__)}: {f.name}"
        if not _fits(value, hint):
            words = [word for m in _members(hint) if typing.get_origin(m) is Literal for word in typing.get_args(m)]
            if int in _members(hint) and isinstance(value, float) and value.is_integer():
                value = int(value)
            elif (word := format_value(value)) in words:
                value = word
            else:
                near = did_you_mean(value, map(str, words)).rstrip() if isinstance(value, str) else ""
                end = f"; {near}" if near else ""
                raise OptionError(f"{where} must be {_describe(hint)}, found {word}{end}")
            object.__setattr__(settings, f.name, value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            _check_range(where, value, f.metadata)


def _check_range(where: str, value: float, meta: Mapping[str, Any]) -> None:
    low, high, below = meta.get("low"), meta.get("high"), meta.get("below")
    if isinstance(value, int) and abs(value) >= _TOO_LARGE:
        raise OptionError(f"{where} must be below 2^62, found {brief(value)}")
    ok = (
        value == value  # NaN is outside every range.
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
    """Return the types of a union, or the one type."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    for member in _members(hint):
        if typing.get_origin(member) is Literal:
            if isinstance(value, (str, int, float)) and value in typing.get_args(member):
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
    """Return a type in plain words."""
    plain = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a word",
        type(None): "none",
    }
    members = _members(hint)
    if any(typing.get_origin(m) is Literal and "none" in typing.get_args(m) for m in members):
        members = tuple(m for m in members if m is not type(None))  # The words include none already.
    words = [
        "one of " + ", ".join(map(str, typing.get_args(m))) if typing.get_origin(m) is Literal else plain.get(m, str(m))
        for m in members
    ]
    return " or ".join(words)
