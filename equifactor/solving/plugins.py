"""Solvers from outside of this package: of installed packages (entry points), and of files named on the command line.

A package names its solvers in the group `equifactor.solvers` of its entry points. A file registers them when it is
loaded, by the decorator `register`. Nothing here runs before a name is asked for that this package does not have.
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

GROUP = "equifactor.solvers"
_OWN = __name__.partition(".")[0]
_MODULE = f"{_OWN}_plugin_"  # The modules of plugin files are called this and a hash of their path.
_LOADING: list[str] = []  # The files that are being loaded, as the user named them.


# ---- installed packages ---------------------------------------------------------------------------------


@functools.cache
def entry_points() -> Mapping[str, EntryPoint]:
    """The solvers that installed packages offer, by name; nothing is imported yet."""
    from importlib.metadata import entry_points as read_entry_points

    from equifactor.solving.registry import SOLVERS

    found: dict[str, EntryPoint] = {}
    for point in read_entry_points(group=GROUP):
        taken = found.get(point.name)
        other = f"that of {_package(taken)}" if taken else f"that of {_OWN} itself" if point.name in SOLVERS else ""
        if other and not (taken and taken.value == point.value):
            raise FormatError(
                f"two solvers are called {point.name!r}: that of {_package(point)} and {other}; rename one of them "
                "in the entry points of its package, or uninstall one"
            )
        found[point.name] = point
    return found


def load_entry_point(name: str) -> type[Solver]:
    """The class of an installed solver, registered under its name; only its own module is imported."""
    from equifactor.solving import registry
    from equifactor.solving.solver import Solver

    point = entry_points()[name]
    where = f"solver {name!r} of {_package(point)}"
    try:
        cls = point.load()
    except (Exception, SystemExit) as error:
        raise FormatError(f"{where} cannot be loaded from {point.value}: {_in_words(error)}") from error
    if not (isinstance(cls, type) and issubclass(cls, Solver)):
        raise FormatError(f"{where}: {point.value} is not a solver; expected a class derived from equifactor.Solver")
    known = vars(cls).get("name")
    if known not in (None, name):
        raise FormatError(f"{where} is registered as {known!r} in {point.value}; use one name for both")
    return registry.register(name)(cls)


def _package(point: EntryPoint) -> str:
    """The package of an entry point with its version, for messages."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


# ---- files ----------------------------------------------------------------------------------------------


def load_plugins(plugins: Iterable[str]) -> None:
    """Load files that register solvers, and modules where a text does not end in `.py`; each is loaded once."""
    for plugin in plugins:
        if plugin.endswith(".py"):
            load_file(plugin)
        else:
            try:
                importlib.import_module(plugin)
            except (Exception, SystemExit) as error:
                raise FormatError(f"module {plugin} cannot be loaded: {_in_words(error)}") from error


def load_file(path: str | Path) -> None:
    """Run a file that registers solvers; raises `FormatError` with the file and the line of whatever is wrong."""
    from equifactor.solving import registry

    file, where = Path(path).resolve(), os.fspath(path)
    name = _MODULE + hashlib.sha256(os.fsencode(file)).hexdigest()[:12]
    if name in sys.modules:
        return
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "there is no such file"
        raise FormatError(f"{where}: {what}; expected a Python file that registers a solver")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise FormatError(f"{where}: is not a Python file; the name of a plugin ends in .py")
    module = importlib.util.module_from_spec(spec)
    before = dict(registry._REGISTRY)
    sys.modules[name] = module  # Dataclasses look their module up here.
    _LOADING.append(where)
    try:
        spec.loader.exec_module(module)
        if not any(is_defined_in(cls, file) for cls in registry._REGISTRY.values()):
            raise FormatError(f'{where}: registers no solver; put @equifactor.register("NAME") above its class')
    except BaseException as error:
        del sys.modules[name]
        registry._REGISTRY.clear()
        registry._REGISTRY.update(before)
        if isinstance(error, FormatError) or not isinstance(error, (Exception, SystemExit)):
            raise
        line = _line(error, file)
        raise FormatError(f"{where}{line and f':{line}'}: cannot be loaded: {_in_words(error)}") from error
    finally:
        _LOADING.remove(where)


def is_defined_in(cls: type, file: Path) -> bool:
    """Whether the source of a class is this file."""
    source = _source(cls.__module__)
    return source is not None and source == file


def _source(module: str) -> Path | None:
    """The file of a loaded module; None where it has none, as in a notebook."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).resolve() if file else None


def _line(error: BaseException, file: Path) -> int | str:
    """The line of a file at which loading it failed; empty where it is not known."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename) == file:
        return error.lineno or ""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == file]
    return (lines[-1] if lines else None) or ""


def _in_words(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return str(error) if isinstance(error, EquifactorError) else f"{type(error).__name__}: {error}"


# ---- who wrote it ---------------------------------------------------------------------------------------


def place(cls: type) -> str:
    """Where a class is written: the same for a file however it was loaded, and different for any two classes."""
    return f"{_source(cls.__module__) or cls.__module__}:{cls.__qualname__}"


def is_foreign(cls: type) -> bool:
    """Whether a class comes from outside of this package."""
    return cls.__module__.partition(".")[0] != _OWN


def clash(name: str, cls: type) -> str:
    """The other solver that an installed package offers under a name; empty where there is none."""
    point = entry_points().get(name)
    if point is None or point.module.partition(".")[0] == cls.__module__.partition(".")[0]:
        return ""  # A package may well import the class from one of its modules into another.
    return f"{point.value} of {_package(point)}"


def source_hash(cls: type) -> str:
    """A hash of the file of a solver from outside, or of all files of its package; empty for those of this package."""
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
    """What another process has to load to know a solver: files and modules; nothing where its name is enough.

    Raises `OptionError` for a class that it could not load, as one of a notebook.
    """
    if not is_foreign(cls):
        return ()
    if _LOADING:  # The other process would start a process that starts a process.
        raise OptionError(
            f"{_LOADING[-1]} starts an evaluation while it is loaded: put that below if __name__ == '__main__'"
        )
    files = [str(_source(name)) for name in sys.modules if name.startswith(_MODULE)]
    if cls.name not in entry_points():
        source = _source(cls.__module__)
        if source is None:
            raise OptionError(
                f"{cls.name} is defined in a session and not in a file, so other processes cannot load it: put it "
                "into a file of its own and import that"
            )
        files.append(cls.__module__ if "." in cls.__module__ else str(source))
    return tuple(dict.fromkeys(files))


def blame(error: BaseException) -> str | None:
    """A sentence for an error that a solver from outside raised, with its file and line; None for any other."""
    from equifactor.solving.registry import _REGISTRY

    sources = {str(_source(cls.__module__)) for cls in _REGISTRY.values() if is_foreign(cls)}
    lines = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in sources] if sources else []
    return f"{lines[-1].filename}:{lines[-1].lineno}: {_in_words(error)}" if lines else None
