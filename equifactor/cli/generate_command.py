"""`equifactor generate KIND`: seeded models. The flags of a kind are the arguments of its generator.

Each function in `GENERATORS` becomes a subcommand: its signature gives names, types and defaults, its docstring
the help. A new generator needs no change here.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from equifactor.base.errors import OptionError
from equifactor.cli.lazy_commands import SuggestingGroup
from equifactor.cli.shared_options import example
from equifactor.generators import GENERATORS, ising_grid

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.solving.solver import Progress

EXAMPLE = example("equifactor generate ising --rows 5 --cols 5 --seed 3 -o grid.uai")

_EXAMPLES = {
    "ising": "equifactor generate ising --rows 5 --cols 5 --seed 3 -o grid.uai",
    "asymmetric": "equifactor generate asymmetric --rows 4 --cols 4 --count 10 -o grids",
    "potts": "equifactor generate potts --rows 6 --cols 6 --states 4 -o potts.uai.gz",
    "pairwise": "equifactor generate pairwise --num-vars 30 --topology regular --degree 4 --card 3 -o regular.uai",
    "tree": "equifactor generate tree --num-vars 100 --card 2-5 -o tree.uai",
    "random": "equifactor generate random --num-vars 20 --num-factors 30 --arity 1-3 --zeros 0.2 -o random.uai",
    "ldpc": "equifactor generate ldpc --n 24 --k 12 --snr-db 2 -o code.uai",
    "ksat": "equifactor generate ksat --num-vars 100 --ratio 4.2 --k 3 -o formula.cnf",
    "noisy-or": "equifactor generate noisy-or --num-causes 20 --num-effects 30 --observed 0.5 -o diagnosis.uai",
    "network": "equifactor generate network --num-vars 40 --parents 1-3 --sharpness 3 --observed 0.3 -o network.uai",
    "pedigree": "equifactor generate pedigree --num-people 20 --loci 2 --typed 0.5 -o family.uai",
}

_ABOUT = {  # One line for each kind in the list of kinds.
    "ising": "Spin glasses on a grid.",
    "asymmetric": "Binary fields on a grid with asymmetric tables.",
    "potts": "Potts glasses on a grid, with any number of states.",
    "pairwise": "Fields and pair tables on a graph of several topologies.",
    "tree": "Random trees.",
    "random": "Factors with random scopes, some entries zero.",
    "ldpc": "Decoding problems of a random LDPC code.",
    "ksat": "Random k-SAT formulas.",
    "noisy-or": "Diseases and findings with noisy-or factors.",
    "network": "Bayesian networks with evidence.",
    "pedigree": "Alleles of related people at linked loci.",
}

app = typer.Typer(
    name="generate",
    cls=SuggestingGroup,
    epilog=EXAMPLE,
    add_completion=False,
    help="Generate seeded models of one KIND; equifactor generate KIND --help shows its options.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_OUTPUT = Annotated[
    str,
    typer.Option("--output", "-o", metavar="FILE", help="File to write, or a folder with --count; - is stdout."),
]
_FORMAT = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="NAME",
        help="Format: uai, lg, fg, cnf, wcsp, cfn, or for a network bif, xmlbif, net, xdsl; default by suffix, or uai.",
    ),
]


def write_models(
    graphs: FactorGraph | list[FactorGraph], kind: str, output: str, format: str | None, report: Progress | None = None
) -> None:
    """Write one graph to a file or stdout, several to `KIND_000.uai`, `KIND_001.uai`, .. in a folder."""
    from equifactor.base.files import make_folder
    from equifactor.formats import write_graph

    if not isinstance(graphs, list):
        write_graph(graphs, output, format=format)
        return
    if output == "-":
        raise OptionError("--count writes one file per model, so -o must name a folder, found - (stdout).")
    make_folder(output)
    folder, suffix = Path(output), format or "uai"
    digits = max(3, len(str(len(graphs) - 1)))
    for n, graph in enumerate(graphs):
        write_graph(graph, folder / f"{kind}_{n:0{digits}}.{suffix}", format=format)
        if report is not None:
            report(n + 1, len(graphs), "")


def _command(kind: str, generator: Callable[..., Any]) -> Callable[..., None]:
    """Return a function that takes the generator's arguments, the output and its format as options."""

    def run(**given: Any) -> None:
        from equifactor.base.progress import bar
        from equifactor.formats import check_target

        output, format = given.pop("output"), given.pop("format")
        if given.get("count") is None:
            check_target(output, format=format)
        with bar(output != "-", f"generating {kind}") as report:
            write_models(generator(**given), kind, output, format, report)

    parameters = [_parameter(p, hint) for p, hint in _arguments(generator)]
    parameters.append(_keyword("output", _OUTPUT, "-"))
    parameters.append(_keyword("format", _FORMAT, None))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__doc__ = (generator.__doc__ or "").split("\n\n")[0]
    return run


def _arguments(generator: Callable[..., Any]) -> list[tuple[inspect.Parameter, Any]]:
    """Return the parameters and their types, annotated with help texts; `ising_grid` supplies missing texts."""
    hints = typing.get_type_hints(generator, _names_for(generator))
    texts = {"states": "number of states of every variable.", **_help(ising_grid), **_help(generator)}
    return [
        (p, Annotated[hints[p.name], texts.get(p.name, "")]) for p in inspect.signature(generator).parameters.values()
    ]


def _names_for(generator: Callable[..., Any]) -> dict[str, Any]:
    """Return the names in annotations, also those imported only for the type checker (no option has such a type)."""
    return {**vars(inspect.getmodule(generator)), "FactorGraph": object}


def _help(function: Callable[..., Any]) -> dict[str, str]:
    """Return the text of each argument in the `Args:` section of a docstring."""
    section = re.search(r"^Args:\n((?: +.*\n?)+)", inspect.getdoc(function) or "", re.MULTILINE)
    entries = re.findall(r"^    (\w+): ((?:.*\n?)(?:^ {5,}.*\n?)*)", section[1] if section else "", re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _parameter(parameter: inspect.Parameter, annotated: Any) -> inspect.Parameter:
    hint, text = typing.get_args(annotated)
    flag = "--" + parameter.name.replace("_", "-")
    settings: dict[str, Any] = {"help": text[:1].upper() + text[1:]}
    if parameter.name == "count":
        settings |= {"help": "Write this many models, into the folder given by -o.", "metavar": "N"}
    elif typing.get_origin(hint) is Literal:
        settings["metavar"] = "|".join(typing.get_args(hint))
        hint = str
    elif tuple[int, int] in typing.get_args(hint):
        settings |= {"metavar": "N|LOW-HIGH", "parser": _number_or_range}
        hint = str
    elif hint is bool:
        return _keyword(parameter.name, Annotated[bool, typer.Option(flag, **settings)], parameter.default)
    default = parameter.default
    if isinstance(default, tuple):
        default = "-".join(map(str, default))
    return _keyword(parameter.name, Annotated[hint, typer.Option(flag, **settings)], default)


def _number_or_range(text: str) -> int | tuple[int, int]:
    """Return the number in `3`, or the two numbers in `2-5`."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", str(text))
    if not match:
        raise typer.BadParameter(f"expected a number like 3 or a range like 2-5, found {text!r}")
    low, high = match.groups()
    return int(low) if high is None else (int(low), int(high))


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


for _kind, _generator in GENERATORS.items():
    _line = _EXAMPLES.get(_kind, f"equifactor generate {_kind} --help")
    app.command(_kind, short_help=_ABOUT.get(_kind), epilog=example(_line))(_command(_kind, _generator))
