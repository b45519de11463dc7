"""Public names of a package, listed once in the stub file beside it and imported when they are first used.

The stub `__init__.pyi` has one line for each name, which type checkers and editors read too:

    from equifactor.graph.factor_graph import FactorGraph as FactorGraph
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

_LINE = re.compile(r"^from ([\w.]+) import (\w+) as (\w+)$", re.MULTILINE)


class _MovedModules:
    """The last finder of modules: an error names the new place of a module that pages of earlier versions showed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        now = import_module("equifactor.base.foreign_names").MODULES.get(name) if name[:11] == "equifactor." else None
        if now is not None:
            raise ModuleNotFoundError(f"{name} is now {now}", name=name)


sys.meta_path.append(_MovedModules)


def lazy_names(
    package: str, file: str, replaced: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a package whose stub lists its public names.

    Args:
        package: the name of the package.
        file: its `__file__`; the stub has the same name with the suffix `.pyi`. Empty if it has no public names.
        replaced: names that earlier versions had, and what to write in their place.
    """
    places = {}
    if file:
        with open(re.sub(r"\.pyc?$", ".pyi", file), encoding="utf-8") as stub:  # noqa: PTH123 (pathlib takes 5 ms)
            places = {name: (module, own) for module, own, name in _LINE.findall(stub.read())}

    def get(name: str) -> Any:
        if name not in places:
            raise _unknown(name, package, replaced or {}, [own for module, own in places.values() if module == package])
        module, own = places[name]
        try:
            found = None if module == package else import_module(module)
            value = getattr(found, own) if hasattr(found, own) else import_module(f"{module}.{own}")
        except ModuleNotFoundError as error:
            raise import_module("equifactor.base.optional_packages").explained(error, name) from None
        setattr(sys.modules[package], name, value)  # Later uses find the name without this function.
        return value

    names = sorted(places)
    return get, lambda: names, names


def _unknown(name: str, package: str, replaced: Mapping[str, str], parts: list[str]) -> Exception:
    """Return the error for a name that the package does not have; it says where the name is now."""
    foreign = import_module("equifactor.base.foreign_names")
    now = replaced.get(name) or foreign.MODULES.get(f"{package}.{name}", "")
    for part in [] if now or name.startswith("_") else parts:
        with contextlib.suppress(ImportError):
            if name in getattr(import_module(f"{package}.{part}"), "__all__", ()):
                now = f"{package}.{part}.{name}"
    text = f"{package}.{name} is now {now}"
    if not now:
        place = foreign.place_of(name)
        if not place:  # With name and obj the interpreter adds the closest name.
            return AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        text = f"{package} has no {name}: {place}."
    # An import statement replaces the text of an AttributeError by its own; it keeps the text of an ImportError.
    caller = sys._getframe(2)
    importing = caller.f_code.co_code[caller.f_lasti] == import_module("opcode").opmap["IMPORT_FROM"]
    return ImportError(text) if importing else AttributeError(text)
