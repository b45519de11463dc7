"""The check of arguments while the tests run; `conftest` applies it to every module that states shapes."""

import re
from collections.abc import Callable
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
        return _jaxtyped(typechecker=typechecker)(given)

    return decorate
