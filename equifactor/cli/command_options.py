"""What several subcommands share: options, and the example at the end of every help text."""

from __future__ import annotations

from typing import Annotated

import typer

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL", help="Model files, by suffix .uai .lg .fg .cnf .wcsp, also .gz and .xz; - is stdin."
    ),
]
Evidence = Annotated[
    list[str] | None,
    typer.Option(
        "--evidence",
        "-e",
        metavar="FILE",
        help="UAI evidence: one file for all models, or one for each of them.",
    ),
]
Sample = Annotated[
    int | None,
    typer.Option("--sample", metavar="N", help="Which sample, from 0, of evidence files that hold several."),
]
InputFormat = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Format of the models: uai, lg, fg, cnf or wcsp; default by suffix."),
]


def example(*lines: str) -> str:
    """The last paragraph of a help text; `\\b` keeps the lines as they are."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
