"""`equifactor solvers`: the list of solvers, and the options of each."""

from __future__ import annotations

import dataclasses
import textwrap
import typing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equifactor.base.errors import FormatError, MissingPackageError, OptionError
from equifactor.cli.completions import solvers_by_name
from equifactor.cli.exit_status import say, terminal_width
from equifactor.cli.shared_options import Plugins, example
from equifactor.show.text_tables import fitted

if TYPE_CHECKING:
    from equifactor.solving.solver import Solver

EXAMPLE = example("equifactor solvers", "equifactor solvers bp", "equifactor solvers relay")


def solvers(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", autocompletion=solvers_by_name, help="Show the options of this solver or method."
        ),
    ] = None,
    plugin: Plugins = None,
) -> None:
    """List the solvers with tasks, symmetries and a summary; with NAME, describe the options of one solver.

    Symmetries are the relabellings that the answers follow: of variables and factors (global), of the order of
    each factor's variables (local variable), and of the states of each variable (variable assignment). NAME may also be
    a method of `equifactor decode`: relay, pooled, search, class, learned-memory, memory, min-sum, sum-product,
    bp-osd or optimal. Or it is a method of `equifactor fit`: counts, em, likelihood, pseudo-likelihood or max-margin.
    """
    from equifactor.solvers.learned.listed_solvers import LISTED, NATIVE
    from equifactor.solving.registry import solver_class, solver_names

    if name is not None:
        print(_described(name))
        return
    rows = []
    with_torch = find_spec("torch") is not None
    listed = {known: row for known, row in LISTED.items() if with_torch or known in NATIVE}
    for known in solver_names():
        if known in listed:
            rows.append((known, *listed[known]))
            continue
        try:
            found = solver_class(known)
        except MissingPackageError as error:
            rows.append((known, "-", "-", str(error)))
        except FormatError as error:  # A broken plugin must not hide the other solvers.
            say(str(error))
        else:
            rows.append((known, " ".join(found.tasks), _symmetries(found), found.summary()))
    print(fitted([("NAME", "TASKS", "SYMMETRIES", ""), *rows], terminal_width()))
    say("methods of decoding and of fitting have names too: equifactor solvers relay, equifactor solvers em")


def _symmetries(cls: type[Solver]) -> str:
    from equifactor.symmetry import KINDS

    if cls.symmetries >= set(KINDS):
        return "all"
    return ", ".join(kind for kind in KINDS if kind in cls.symmetries) or "none"


def _described(name: str) -> str:
    """Return the docstring of a solver or of a method of decoding or fitting, then one row per option."""
    from equifactor.decoding.methods import METHODS
    from equifactor.learning.fitting import fitter
    from equifactor.solving.registry import solver_class, solver_names

    found: type[Any]
    method = name.lower()
    if name not in solver_names() and method in METHODS:
        found = METHODS[method]
        own = next(iter(vars(found).get("__annotations__", {})), "iterations")
        setting = f"{own}={_value(getattr(found, own))}"
        facts = f'A method of decoding: equifactor decode CODE SHOTS --method "{method}({setting})"\n'
    elif name not in solver_names() and method in fitter.METHODS:
        found = fitter.method_class(method)
        facts = f"A method of fitting: equifactor fit MODEL DATA --method {method} --set NAME=VALUE\n"
    else:
        try:
            found = solver_class(name)
        except OptionError as error:
            raise OptionError(
                f"{error}. The methods of decoding are {', '.join(sorted(METHODS))}, and the methods of fitting "
                f"are {', '.join(fitter.METHODS)}."
            ) from None
        takes = f"Takes: {found.takes}\n" if found.takes else ""
        facts = f"Tasks: {' '.join(found.tasks)}\nSymmetries: {_symmetries(found)}\n{takes}"
    return f"{_summary(found)}\n\n{facts}\n{_options(found)}"


def _summary(cls: type[Any]) -> str:
    """Return the name and the docstring of a class, as wide as the terminal."""
    lines = [line.removeprefix("    ") for line in (cls.__doc__ or "").strip().splitlines()]
    text = f"{cls.name}: " + "\n".join(lines)
    width = terminal_width()
    return text if width is None else "\n\n".join(textwrap.fill(part, width) for part in text.split("\n\n"))


def _options(cls: type[Any]) -> str:
    """Return one row per option of a dataclass of settings."""
    hints = typing.get_type_hints(cls)
    rows = [
        (f.name, _kind(hints[f.name]), _value(f.default), _range(f.metadata), f.metadata.get("help", ""))
        for f in dataclasses.fields(cls)
    ]
    if not rows:
        return "This solver has no options."
    return fitted([("OPTION", "TYPE", "DEFAULT", "RANGE", ""), *rows], terminal_width())


def _kind(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return "|".join(map(str, typing.get_args(hint)))
    members = [t for t in typing.get_args(hint) if t is not type(None)]
    return " or ".join(_kind(t) for t in members) if members else str(getattr(hint, "__name__", hint))


def _value(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _range(meta: typing.Mapping[str, Any]) -> str:
    """Return the range of an option, such as `0 <= x < 1`; either end may be missing."""
    low, high, below = meta.get("low"), meta.get("high"), meta.get("below")
    end = f" <= {high:g}" if high is not None else f" < {below:g}" if below is not None else ""
    return (f"{low:g} <= x" if low is not None else "x" if end else "") + end
