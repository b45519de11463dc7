"""Solvers as text: `bp(damping=0.5, iterations=50)` parses, prints, and lists what it knows.

A solver is a frozen dataclass in a file of its own under `equifactor/solvers/`, whose name is the solver's name
(`-` written as `_`). Nothing else needs to be edited to add one.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import re
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from equifactor.errors import OptionError

if TYPE_CHECKING:
    from equifactor.solver import Solver

    S = TypeVar("S", bound=type[Solver])

# Name of a solver -> module below `equifactor.solvers`, and class.
SOLVERS = {
    "auto": "auto.chooser:Auto",
    "brute": "elimination.brute:BruteForce",
    "exact": "elimination.exact:Exact",
    "bpnn": "learned.bpnn_solver:BeliefPropagationNetwork",
    "fe-gnn": "learned.fe_gnn_solver:GraphNetwork",
    "fe-nbp": "learned.fe_nbp_solver:NeuralBeliefPropagation",
    "fe-net": "learned.fe_net_solver:EquivariantNetwork",
    "fgnn": "learned.fgnn_solver:FactorGraphNetwork",
    "ggnn": "learned.ggnn_solver:GatedGraphNetwork",
    "nebp": "learned.nebp_solver:EnhancedBeliefPropagation",
    "bp": "messages.bp:BeliefPropagation",
    "meanfield": "messages.meanfield:MeanField",
    "trw": "messages.trw:TreeReweighted",
    "beam": "optimise.beam:Beam",
    "best-first": "optimise.beam:BestFirst",
    "branch": "optimise.branch:Branch",
    "local-search": "optimise.local_search:LocalSearchSolver",
    "mplp": "optimise.duals:Mplp",
    "srmp": "optimise.duals:Srmp",
    "toulbar2": "optimise.toulbar2:Toulbar2",
    "gibbs": "sampling.gibbs:Gibbs",
}

_REGISTRY: dict[str, type[Solver]] = {}
_SPEC = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
MODEL_SUFFIX = ".safetensors"
_MODEL_SPEC = re.compile(rf"(.*{re.escape(MODEL_SUFFIX)})\s*(?:\((.*)\))?", re.DOTALL)
_ARGUMENT = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,])+""")  # up to the next comma outside quotes
_QUOTED = re.compile(r""""[^"]*"|'[^']*'""")


def option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    below: float | None = None,
) -> Any:
    """A solver setting: default, one line of help, inclusive range `low..high` or exclusive end `below`."""
    return dataclasses.field(default=default, metadata={"help": help, "low": low, "high": high, "below": below})


def register(name: str) -> Callable[[S], S]:
    """Class decorator: make a solver known under `name`; a name can be taken once."""

    def decorate(cls: S) -> S:
        if _REGISTRY.get(name, cls).__qualname__ != cls.__qualname__:
            raise ValueError(f"two solvers are called {name!r}")
        cls.name = name
        _REGISTRY[name] = cls
        return cls

    return decorate


def solver_names() -> list[str]:
    """Names of all solvers: those of the table above and what a user registered."""
    return sorted({*SOLVERS, *_REGISTRY})


def solver_class(name: str) -> type[Solver]:
    """The class behind a name; imports its file only."""
    if name not in _REGISTRY:
        if name not in solver_names():
            raise OptionError(f"there is no solver {name!r}; {_choices(name, solver_names())}")
        importlib.import_module(f"equifactor.solvers.{SOLVERS[name].partition(':')[0]}")
    return _REGISTRY[name]


def parse_solver(spec: str | Solver) -> Solver:
    """A solver from its text form, or a model file with `(options)` or without; a solver object stays as it is."""
    from equifactor.solver import Solver

    if isinstance(spec, Solver):
        return spec
    name, arguments, given = _taken_apart(spec)
    cls = solver_class(name)
    settings = dict(given)
    for part in filter(None, (p.strip() for p in _ARGUMENT.findall(arguments))):
        key, equals, value = (p.strip() for p in part.partition("="))
        if key in settings:
            raise OptionError(f"{name} is given {key} twice")
        settings[key] = parse_value(value) if equals else True  # a bare word switches an option on
    known = [f.name for f in dataclasses.fields(cls)]
    for key in settings:
        if key not in known:
            raise OptionError(f"{name} has no option {key!r}; {_choices(key, known)}")
    return cls(**settings)


def _taken_apart(spec: str) -> tuple[str, str, dict[str, Any]]:
    """Name, text of the arguments, and the weights where the spec is a model file."""
    text = spec if isinstance(spec, str) else ""
    match, model = _SPEC.fullmatch(text), _MODEL_SPEC.fullmatch(text.strip())
    if match and (not model or match[1] in solver_names()):
        return match[1], match[2] or "", {}
    if not model:
        raise OptionError(
            f"cannot read the solver {spec!r}; write it like bp, bp(damping=0.5) or mine{MODEL_SUFFIX} for a model file"
        )
    from equifactor.solvers.learned.learned_solver import model_kind

    return model_kind(model[1]), model[2] or "", {"weights": model[1]}


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


def format_solver(solver: Solver) -> str:
    """Text form with the settings that differ from the defaults; parses back to an equal solver."""
    changed = [
        f"{f.name}={_format_value(getattr(solver, f.name))}"
        for f in dataclasses.fields(solver)
        if getattr(solver, f.name) != f.default
    ]
    return solver.name + (f"({', '.join(changed)})" if changed else "")


def check_options(solver: Any) -> None:
    """Type and range of every setting; whole floats become ints where an int is wanted."""
    cls: type = type(solver)
    hints = _hints(cls)
    for f in dataclasses.fields(solver):
        value, hint = getattr(solver, f.name), hints[f.name]
        where = f"{getattr(solver, 'name', type(solver).__name__)}: {f.name}"
        if not _fits(value, hint):
            if int in _members(hint) and isinstance(value, float) and value.is_integer():
                value = int(value)
                object.__setattr__(solver, f.name, value)
            else:
                raise OptionError(f"{where} must be {_describe(hint)}, found {_format_value(value)}")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            _check_range(where, value, f.metadata)


def _check_range(where: str, value: float, meta: typing.Mapping[str, Any]) -> None:
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
    plain = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a word",
        type(None): "none",
    }
    words = [
        "one of " + ", ".join(map(str, typing.get_args(m))) if typing.get_origin(m) is Literal else plain.get(m, str(m))
        for m in _members(hint)
    ]
    return " or ".join(words)


def _format_value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and (parse_value(value) != value or value != value.strip() or re.search("[,'\"]", value)):
        quote = "'" if '"' in value else '"'
        return f"{quote}{value}{quote}"
    return f"{value!r}" if isinstance(value, float) or value == "" else str(value)


def _choices(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word.lower(), known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}choose from: {', '.join(known) or '(none)'}"
