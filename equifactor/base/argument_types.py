"""Checks of arguments by the type hints of a function, so that a wrong type is one sentence and not a traceback."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeGuard, TypeVar

import numpy as np

from equifactor.base.errors import OptionError, brief
from equifactor.base.status import PLAIN_TASKS, Task

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _is_number(value: object, kind: type) -> bool:
    # Python and NumPy count truth values and time spans as whole numbers.
    return isinstance(value, kind) and not isinstance(value, (bool, np.timedelta64))


def is_real(value: object) -> TypeGuard[float]:
    """Return whether a value is a number that fits a float: 10**400 is a whole number and does not fit."""
    try:
        return isinstance(value, Real) and not isinstance(value, np.timedelta64) and isinstance(float(value), float)
    except OverflowError:
        return False


def read_task(task: Task | str) -> Task:
    """Return the task of this name; raise `OptionError` for anything else, and for MMAP, which needs a query."""
    try:
        found = Task(task)
    except Exception:  # the text of a foreign object may raise any error
        raise OptionError(f"There is no task {brief(task)}. The tasks are {', '.join(PLAIN_TASKS)}.") from None
    if found not in PLAIN_TASKS:
        raise OptionError(f"The task {found} needs a query, so it is for solve alone. Use {', '.join(PLAIN_TASKS)}.")
    return found


def _is_list(value: object) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, (str, bytes)) and getattr(value, "ndim", 1) != 0


def _is_array(value: object, kinds: str) -> bool:
    """Return whether NumPy reads a value as an array whose numbers are of these kinds."""
    try:
        array = np.asarray(value)
    except Exception:  # rows of different lengths, or any error of a foreign object that is asked for numbers
        return False
    return array.dtype.kind in kinds or not array.size


def _is_instance(value: object, name: str) -> bool:
    """Return whether a value is of a class of this name: this module is below the modules of most classes."""
    return any(kind.__name__ == name for kind in type(value).__mro__)


def _is_tensor(value: Any) -> bool:
    """Return whether a value is a dense tensor with numbers; sparse tensors lack most operations."""
    return _is_instance(value, "Tensor") and value.layout.__repr__() == "torch.strided" and value.device.type != "meta"


# For each part of a type hint: what it is called in a message, and whether a value is one.
_PARTS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("True or False", lambda value: isinstance(value, (bool, np.bool_, int)) and value in (0, 1)),
    "int": ("a whole number", lambda value: _is_number(value, Integral)),
    "float": ("a number", lambda value: is_real(value) and not isinstance(value, bool)),
    "str": ("text", lambda value: isinstance(value, str)),
    "Path": ("a path", lambda value: isinstance(value, os.PathLike)),
    "PathLike": ("a path", lambda value: isinstance(value, (str, os.PathLike))),
    "Iterable": ("a list", _is_list),
    "Sequence": ("a list", lambda value: _is_list(value) and hasattr(value, "__len__")),
    "Collection": ("a list", lambda value: _is_list(value) and hasattr(value, "__len__")),
    "Mapping": ("a mapping", lambda value: isinstance(value, Mapping)),
    "Task": ("a Task such as Task.MAR", lambda value: isinstance(value, Task)),
    "dict": ("a mapping", lambda value: isinstance(value, Mapping)),
    "Semiring": ("sum or max", lambda value: isinstance(value, str) and value in ("sum", "max")),
    "Flat": ("a FlatGraph", lambda value: _is_instance(value, "FlatGraph")),
    **dict.fromkeys(
        ("ArrayLike", "FloatArray", "NDArray"), ("an array of numbers", lambda value: _is_array(value, "biuf"))
    ),
    "IntArray": ("an array of whole numbers", lambda value: _is_array(value, "biu")),
    "BoolArray": ("an array of truth values", lambda value: _is_array(value, "b")),
    **dict.fromkeys(("Tensor", "Float", "Int"), ("a dense tensor", _is_tensor)),
}
# Types that a part of a hint allows without a look at the value, so that most calls pay for one comparison.
_QUICK: dict[str, tuple[type, ...]] = {
    "None": (type(None),), "bool": (bool,), "int": (int,), "float": (float,), "str": (str,), "Task": (Task,),
}  # fmt: skip
_NOWHERE = 2**31  # The place of an argument that can only be given by its name.
_Rule = tuple[str, list[Callable[[object], bool]], frozenset[type]]


def checks_types(*names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that raises `OptionError` if a named argument has a type that its hint does not allow.

    The module of the function must have `from __future__ import annotations`, which keeps type hints as text. A part
    of a hint that is not in `_PARTS` is the name of a class. Elements of lists are not checked.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        inner: Any = function
        while hasattr(inner, "__wrapped__"):  # Another decorator may hide the arguments.
            inner = inner.__wrapped__
        places = inner.__code__.co_varnames[: inner.__code__.co_argcount]
        rules = [
            (places.index(name) if name in places else _NOWHERE, name, *_rule(_text(function.__annotations__[name])))
            for name in names
        ]
        method = function.__name__ == "__init__" or function.__name__ == "__call__"
        title = function.__qualname__.split(".")[-2] if method else function.__name__

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            count = len(args)
            for place, name, expected, parts, quick in rules:
                if place < count:
                    value: object = args[place]
                elif name in kwargs:
                    value = kwargs[name]
                else:
                    continue
                if type(value) not in quick and not any(allows(value) for allows in parts):
                    raise OptionError(f"{title}: {name} must be {expected}, found {brief(value)}.")
            return function(*args, **kwargs)

        return checked

    return decorate


def checks_fields(*names: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator that does the same for fields of a dataclass, when an object of it is made."""

    def decorate(cls: type[T]) -> type[T]:
        cls.__init__ = checks_types(*names)(cls.__init__)  # type: ignore[method-assign]
        return cls

    return decorate


def _part(name: str) -> tuple[str, Callable[[object], bool]]:
    """Return what a part of a hint is called in a message, and its check."""
    own = name.rpartition(".")[2]
    if own in _PARTS:
        return _PARTS[own]
    return f"{'an' if own[0] in 'AEIOU' else 'a'} {own}", lambda value: _is_instance(value, own)


def _text(hint: Any) -> str:
    """Return a hint as text: checkers of types replace hints by the types themselves."""
    return hint if isinstance(hint, str) else hint.__name__ if isinstance(hint, type) else str(hint)


def _rule(hint: str) -> _Rule:
    """Return what a type hint is called, the checks of its parts, and the types that need none."""
    if hint.startswith("AnswerField["):  # A field of a result, which may be missing.
        hint = f"{hint.removeprefix('AnswerField[').removesuffix(']')} | None"
    outer, depth = "", 0  # the hint without what is in brackets
    for letter in hint:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        outer += letter if depth == 0 and letter != "]" else ""
    parts = [part.strip() for part in outer.split("|")]
    words = list(dict.fromkeys(_part(part)[0] for part in parts))
    expected = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    quick = frozenset(kind for part in parts for kind in _QUICK.get(part, ()))
    return expected, [_part(part)[1] for part in parts], quick
