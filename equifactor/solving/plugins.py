"""Solvers from outside this package: from installed packages (entry points), and from files on the command line.

A package lists its solvers in the group `equifactor.solvers` of its entry points. A file registers its solvers with
the decorator `register` when it is loaded. Entry points are read only when an unknown solver name is looked up.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from equifactor.base.errors import EquifactorError, FormatError, OptionError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from equifactor.solving.solver import Solver

GROUP = "equifactor.solvers"  # The group of entry points.
_OWN = __name__.partition(".")[0]  # The name of this package.
_MODULE = f"{_OWN}_plugin_"  # The module of a plugin file has this name, followed by a hash of its path.
_LOADING: list[str] = []  # The files that are being loaded, with the paths that the user gave.


# ---- installed packages ---------------------------------------------------------------------------------


@functools.cache
def entry_points() -> Mapping[str, EntryPoint]:
    """Return the solvers of installed packages by name, without importing them."""
    from importlib.metadata import entry_points as read_entry_points

    from equifactor.solving.registry import SOLVERS

    found: dict[str, EntryPoint] = {}
    for point in read_entry_points(group=GROUP):
        taken = found.get(point.name)
        other = _package(taken) if taken else f"{_OWN} itself" if point.name in SOLVERS else ""
        if other and not (taken and taken.value == point.value):
            raise FormatError(
                f"Two solvers are called {point.name!r}, one from {_package(point)} and one from {other}. Rename one "
                "of them in the entry points of its package, or uninstall one package."
            )
        found[point.name] = point
    return found


def load_entry_point(name: str) -> type[Solver]:
    """Load an installed solver and register it under its name; only its own module is imported."""
    from equifactor.solving import registry
    from equifactor.solving.solver import Solver

    point = entry_points()[name]
    where = f"Solver {name!r} of {_package(point)}"
    try:
        cls = point.load()
    except (Exception, SystemExit) as error:
        raise FormatError(f"{where} cannot be loaded from {point.value}: {_in_words(error)}") from error
    if not (isinstance(cls, type) and issubclass(cls, Solver)):
        raise FormatError(f"{where}: expected a class derived from equifactor.solvers.Solver, found {point.value}.")
    known = vars(cls).get("name")
    if known not in (None, name):
        raise FormatError(f"{where} is registered as {known!r} in {point.value}. Use the same name for both.")
    return registry.register(name)(cls)


def _package(point: EntryPoint) -> str:
    """Return the package of an entry point with its version, for messages."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


# ---- files ----------------------------------------------------------------------------------------------


def load_plugins(plugins: Iterable[str]) -> None:
    """Load files (texts that end in `.py`) and modules (all others) that register solvers; each is loaded once."""
    for plugin in plugins:
        if plugin.endswith(".py"):
            load_file(plugin)
        else:
            try:
                importlib.import_module(plugin)
            except (Exception, SystemExit) as error:
                raise FormatError(f"Module {plugin} cannot be loaded: {_in_words(error)}") from error


def load_file(path: str | Path) -> None:
    """Run a file that registers solvers. Raises `FormatError` with the file and the line of the problem."""
    from equifactor.solving import registry

    where = os.fspath(path)
    try:
        file = Path(path).resolve()
    except ValueError as error:  # a zero byte in the name
        raise FormatError(f"{where}: {error}. Expected a Python file that registers a solver.") from None
    name = _MODULE + hashlib.sha256(os.fsencode(file)).hexdigest()[:12]
    if name in sys.modules:
        return
    if not file.is_file():
        what = "this is a folder" if file.is_dir() else "there is no such file"
        raise FormatError(f"{where}: {what}. Expected a Python file that registers a solver.")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise FormatError(f"{where}: this is not a Python file. The name of a plugin must end in .py.")
    module = importlib.util.module_from_spec(spec)
    before = dict(registry._REGISTRY)
    sys.modules[name] = module  # Dataclasses look up their module here.
    _LOADING.append(where)
    try:
        spec.loader.exec_module(module)
        if not any(is_defined_in(cls, file) for cls in registry._REGISTRY.values()):
            raise FormatError(
                f'{where}: no solver is registered. Put @equifactor.solvers.register("NAME") above its class.'
            )
    except BaseException as error:
        del sys.modules[name]
        registry._REGISTRY.clear()
        registry._REGISTRY.update(before)
        if isinstance(error, FormatError) or not isinstance(error, (Exception, SystemExit)):
            raise
        line = _line(error, file)
        raise FormatError(f"{where}{line and f':{line}'}: this file cannot be loaded: {_in_words(error)}") from error
    finally:
        _LOADING.remove(where)


def is_defined_in(cls: type, file: Path) -> bool:
    """Return whether a class is defined in this file."""
    source = _source(cls.__module__)
    return source is not None and source == file


def _source(module: str) -> Path | None:
    """Return the file of a loaded module, or None if it has no file, as in a notebook."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).resolve() if file else None


def _line(error: BaseException, file: Path) -> int | str:
    """Return the line at which loading a file failed, or an empty text if it is unknown."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename) == file:
        return error.lineno or ""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == file]
    return (lines[-1] if lines else None) or ""


def _in_words(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return str(error) if isinstance(error, EquifactorError) else f"{type(error).__name__}: {error}"


# ---- who wrote it ---------------------------------------------------------------------------------------


def definition_site(cls: type) -> str:
    """Return the file or module and the name of a class: unique, and the same however the file was loaded."""
    return f"{_source(cls.__module__) or cls.__module__}:{cls.__qualname__}"


def is_foreign(cls: type) -> bool:
    """Return whether a class comes from outside this package."""
    return cls.__module__.partition(".")[0] != _OWN


def clash(name: str, cls: type) -> str:
    """Return another solver of this name from an installed package, or an empty text."""
    point = entry_points().get(name)
    if point is None or point.module.partition(".")[0] == cls.__module__.partition(".")[0]:
        return ""  # A package may import the class from one of its modules into another.
    return f"{point.value} of {_package(point)}"


def source_hash(cls: type) -> str:
    """Return a hash of the file or package that defines a solver; empty for the solvers of this package."""
    if not is_foreign(cls):
        return ""
    top = sys.modules.get(cls.__module__.partition(".")[0])
    folders = [Path(folder) for folder in getattr(top, "__path__", ())]
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    source = _source(cls.__module__)
    digest = hashlib.sha256()
    for path in files or ([source] if source else []):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def plugins_for(cls: type[Solver]) -> tuple[str, ...]:
    """Return the files and modules that another process must load to know a solver; empty if its name is enough.

    Raises `OptionError` for a class that another process cannot load, such as a class in a notebook.
    """
    if not is_foreign(cls):
        return ()
    if _LOADING:  # The other process would start a process, and so on.
        raise OptionError(
            f"{_LOADING[-1]} starts an evaluation while it is loaded. Put that call below if __name__ == '__main__'."
        )
    files = [str(_source(name)) for name in sys.modules if name.startswith(_MODULE)]
    if cls.name not in entry_points():
        source = _source(cls.__module__)
        if source is None:
            raise OptionError(
                f"{cls.name} is defined in a session and not in a file, so other processes cannot load it. Put it into "
                "its own file and import that file."
            )
        files.append(cls.__module__ if "." in cls.__module__ else str(source))
    return tuple(dict.fromkeys(files))


def blame(error: BaseException) -> str | None:
    """Return a message with file and line for an error that a solver from outside raised; None for other errors."""
    from equifactor.solving.registry import _REGISTRY

    sources = {str(_source(cls.__module__)) for cls in _REGISTRY.values() if is_foreign(cls)}
    lines = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in sources] if sources else []
    return f"{lines[-1].filename}:{lines[-1].lineno}: {_in_words(error)}" if lines else None
