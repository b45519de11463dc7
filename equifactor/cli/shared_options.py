"""Arguments and options that several subcommands share, and the example that ends every help text."""

from __future__ import annotations

from typing import Annotated

import typer

from equifactor.cli.completions import format_names, model_files, public_collections, solver_specs, words


def _load_plugins(files: list[str] | None) -> list[str] | None:
    """Register the solvers of the files before the command reads the name of a solver."""
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
ModelPath = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", autocompletion=model_files, help="A model file, as for equifactor solve; - is stdin."
    ),
]
EvidencePaths = Annotated[
    list[str] | None,
    typer.Option(
        "--evidence",
        "-e",
        metavar="FILE",
        help="Evidence file (UAI or .csv), one for all models or one for each; or observations such as "
        '"HR=HIGH,CO=LOW".',
    ),
]
Do = Annotated[
    str | None,
    typer.Option(
        "--do", metavar="STATES", help="Set variables of a Bayesian network from outside, such as sprinkler=on."
    ),
]
Sample = Annotated[
    int | None,
    typer.Option("--sample", metavar="N", help="Which sample of an evidence file with several, counted from 0."),
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
TaskName = Annotated[
    str,
    typer.Option(
        "--task",
        "-t",
        metavar="MAR|PR|MAP|MMAP",
        autocompletion=words("MAR", "PR", "MAP", "MMAP"),
        help="MAR for marginals, PR for ln Z, MAP for the most probable assignment, MMAP for that of the --query.",
    ),
]
SolverSpec = Annotated[
    str,
    typer.Option(
        "--solver",
        "-s",
        metavar="SPEC",
        autocompletion=solver_specs,
        help='A solver such as bp or "bp(damping=0.5)", or a trained model file; see equifactor solvers.',
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of all random numbers.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with status 1 unless every status is exact, optimal or converged.")
]
Collections = Annotated[
    str | None,
    typer.Option(
        "--collection",
        metavar="NAME,..",
        autocompletion=public_collections,
        help="Only these collections, such as MAR or Grids,DBN; default all.",
    ),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        callback=_load_plugins,
        help="A Python file that registers your own solvers by equifactor.solvers.register; may be repeated.",
    ),
]
Tolerance = Annotated[
    float,
    typer.Option(
        metavar="X",
        min=0.0,
        help="Largest difference between the natural logs of two table entries that count as equal.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Run on a Dask cluster: tcp://HOST:PORT, or the file that `dask scheduler --scheduler-file` writes.",
    ),
]


def names_in(text: str | None) -> list[str] | None:
    """Return the names in `A,B`, or None, which means all, if the text is empty or None."""
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def example(*lines: str) -> str:
    """Return the last paragraph of a help text; `\\b` keeps typer from joining its lines."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
