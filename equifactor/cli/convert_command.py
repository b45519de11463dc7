"""`equifactor convert`: one model format to another."""

from __future__ import annotations

from typing import Annotated

import typer

from equifactor.cli.shared_options import example

EXAMPLE = example(
    "equifactor generate ising --rows 5 --cols 5 -o grid.uai",
    "equifactor convert grid.uai grid.fg.gz",
    "equifactor convert grid.uai - --to wcsp",
)


def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="Model file; - is stdin.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="File to write; - is stdout.")],
    source_format: Annotated[
        str | None, typer.Option("--from", metavar="NAME", help="Format of IN; default by suffix.")
    ] = None,
    target_format: Annotated[
        str | None, typer.Option("--to", metavar="NAME", help="Format of OUT; default by suffix.")
    ] = None,
) -> None:
    """Convert a model between uai, lg, fg, cnf and wcsp, by suffix; .gz and .xz compress.

    OUT is replaced only when all of it has been written.
    """
    from equifactor.io import check_target, read_graph, write_graph

    check_target(target, format=target_format)
    write_graph(read_graph(source, format=source_format), target, format=target_format)
