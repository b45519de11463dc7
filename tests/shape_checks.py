"""The check of arguments while the tests run; `conftest` applies it to every module that states shapes."""

import functools
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))  # An int is a float, as it is for type checkers.

_SHAPE = re.compile(r"\b(Float|Int|Bool|Shaped|Num|Inexact|UInt)\[")  # The annotations of jaxtyping.
_jaxtyped = jaxtyping.jaxtyped


def _evaluated(text: str, function: Any) -> Any:
    """Return the type of an annotation, or Any, as jaxtyping does, if the names are for type checkers alone."""
    stub = type("Stub", (), {"__annotations__": {"value": text}})
    try:
        return get_type_hints(stub, function.__globals__, include_extras=True)["value"]
    except Exception:
        return Any


def jaxtyped(*, typechecker: Any) -> Callable[[Any], Any]:
    """Return a decorator that checks shapes where a function states some, and types alone in other functions.

    The decorator of jaxtyping binds the arguments of every call and checks them twice. Small functions without shapes,
    which have nothing to gain from it, would take a third of the time of all tests of networks.
    """

    def decorate(given: Any) -> Any:
        annotations = getattr(given, "__annotations__", {})
        plain = not isinstance(given, type) and all(isinstance(text, str) for text in annotations.values())
        if plain and not _SHAPE.search(" ".join(annotations.values())):
            given.__annotations__ = {name: _evaluated(text, given) for name, text in annotations.items()}
            return typechecker(given)
        check = _jaxtyped(typechecker=typechecker)
        return _once_for_all_shapes(given, check) if isinstance(given, FunctionType) else check(given)

    return decorate


def _once_for_all_shapes(function: FunctionType, check: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a function whose arguments and results are checked once for every combination of types and shapes.

    The answer of a check depends on nothing else. Checking every call took a fifth of the time of tests of networks.
    """
    checked = check(function)
    returned: list[Any] = []

    def stub(*args: Any, **options: Any) -> Any:
        return returned[-1]

    repeat = FunctionType(stub.__code__, function.__globals__, function.__name__, None, stub.__closure__)
    check_again = check(functools.update_wrapper(repeat, function))
    seen: dict[Any, set[Any]] = {}

    @functools.wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        given = (_form(args), _form(options) if options else None)
        known = seen.get(given)
        if known is None:
            result = checked(*args, **options)
            seen[given] = {_form(result)}
            return result
        result = function(*args, **options)
        form = _form(result)
        if form not in known:
            returned.append(result)
            try:
                check_again(*args, **options)
            finally:
                returned.pop()
            known.add(form)
        return result

    return wrapped


def _form(value: Any) -> Any:
    """Return what the check of a value depends on: its type, the shape of an array, and the items of a collection."""
    kind = type(value)
    if kind in (int, float, bool, type(None)):
        return kind
    if isinstance(value, tuple | list):
        return (kind, *map(_form, value))
    if isinstance(value, dict):
        return (kind, *((name, _form(item)) for name, item in value.items()))
    if isinstance(value, str | type):
        return value
    return (kind, value.shape, value.dtype) if hasattr(value, "__array__") else kind
