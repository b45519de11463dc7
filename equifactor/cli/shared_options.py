"""Arguments and options that several subcommands share, and the example at the end of every help text."""

from __future__ import annotations

from typing import Annotated

import typer

from equifactor.cli.completions import format_names, model_files


def _load_plugins(files: list[str] | None) -> list[str] | None:
    """Make the solvers of the files known before the command looks at a solver."""
    if files:
        from equifactor.solving.plugins import load_file

        for file in files:
            load_file(file)
    return files


ModelPaths = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL",
        autocompletion=model_files,
        help="Model files, by suffix .uai .lg .fg .cnf .wcsp .cfn .bif .xmlbif .net .xdsl, also .gz, .xz; - is stdin.",
    ),
]
EvidencePaths = Annotated[
    list[str] | None,
    typer.Option(
        "--evidence",
        "-e",
        metavar="FILE",
        help='UAI evidence: one file for all models, or one for each; or "HR=HIGH,CO=LOW" by name.',
    ),
]
Sample = Annotated[
    int | None,
    typer.Option("--sample", metavar="N", help="Which sample, from 0, of evidence files that hold several."),
]
InputFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        autocompletion=format_names,
        help="Format of the models: uai, lg, fg, cnf, wcsp, bif, xmlbif, net, xdsl or cfn; default by suffix.",
    ),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        callback=_load_plugins,
        help="A Python file that registers solvers of your own (docs/solvers/own.md); may be repeated.",
    ),
]
Tolerance = Annotated[
    float,
    typer.Option(
        metavar="X", min=0.0, help="How far natural logs of table entries may be apart; 0 wants equal numbers."
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Run on a Dask cluster: tcp://HOST:PORT or a scheduler file (docs/cluster.md).",
    ),
]


def names_in(text: str | None) -> list[str] | None:
    """The names in `A,B`; None, which stands for all, where nothing is given."""
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def example(*lines: str) -> str:
    """The last paragraph of a help text; `\\b` keeps its lines as they are."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
