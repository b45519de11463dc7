"""What the machine code of a kernel depends on, as text that is the same in every copy of the package.

Machine code is found again by the content of the sources it was made from, not by their path and time. So an installed
copy, a moved environment and a second checkout of the same version use the same kernels. A change in a file changes the
kernels of that file, and those of every file that imports it, because Numba compiles what a kernel calls into it.
"""

from __future__ import annotations

import functools
import hashlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

_PACKAGE = __name__.partition(".")[0]
# Imports at the top of a file. Those inside of a function or of `if TYPE_CHECKING` are indented, and not compiled.
_IMPORTS = re.compile(rf"^from ({_PACKAGE}[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
# Modules of which only their own text counts: constants are taken from them, and they import no kernels.
_LEAVES = (f"{_PACKAGE}.base.",)
# Modules that compile, load and save kernels. Their text does not change machine code; options are in each entry.
_MACHINERY = {
    f"{_PACKAGE}.kernels.{name}"
    for name in ("jit", "kernel_cache", "kernel_folders", "compile_lock", "compile_costs", "source_stamp")
}


class UnstableError(Exception):
    """A kernel depends on something that has no text which is the same in every process."""


@functools.cache
def module_stamp(name: str) -> str:
    """Return a digest of the source of an imported module and of the modules of the package that it imports."""
    path = getattr(sys.modules.get(name), "__file__", None)
    if path is None:
        raise UnstableError(f"module {name} has no file")
    text = Path(path).read_bytes()
    digest = hashlib.sha256(text)
    if not name.startswith(_LEAVES):
        for other in sorted(_imported(text.decode())):
            digest.update(module_stamp(other).encode())
    return digest.hexdigest()


def function_stamp(function: Callable[..., Any]) -> str:
    """Return text that identifies a function: its name, its source, and what it takes from enclosing functions."""
    assert isinstance(function, FunctionType)
    cells = [_value_stamp(cell.cell_contents) for cell in function.__closure__ or ()]
    place = f"{function.__module__}.{function.__qualname__}:{function.__code__.co_firstlineno}"
    return f"{place} {module_stamp(function.__module__)} [{', '.join(cells)}]"


def _imported(text: str) -> set[str]:
    """Return the modules of the package that a source imports at its top and that kernels may take things from."""
    found = set()
    for module, names in _IMPORTS.findall(text):
        inside = {f"{module}.{word}" for word in re.findall(r"\w+", names)} & sys.modules.keys()
        found |= inside or {module}
    return {name for name in found - _MACHINERY if name in sys.modules and name != _PACKAGE}


def _value_stamp(value: Any) -> str:
    """Return text for a value of an enclosing function, the same in every process."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_value_stamp, value))})"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    inner = getattr(value, "py_func", value)  # a kernel, or a plain function
    if isinstance(inner, FunctionType):
        return function_stamp(inner)
    text = repr(value)
    if " at 0x" in text:
        raise UnstableError(text)
    return text
