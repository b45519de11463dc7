"""`equifactor convert`: one model format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equifactor.cli.completions import format_names, model_files
from equifactor.cli.exit_status import Exit, say
from equifactor.cli.shared_options import example

EXAMPLE = example(
    "equifactor generate ising --rows 5 --cols 5 -o grid.uai",
    "equifactor convert grid.uai grid.fg.gz",
    "equifactor convert grid.uai - --to wcsp",
)


def convert(
    source: Annotated[str, typer.Argument(metavar="IN", autocompletion=model_files, help="Model file; - is stdin.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="File to write; - is stdout.")],
    source_format: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", autocompletion=format_names, help="Format of IN; default by suffix."),
    ] = None,
    target_format: Annotated[
        str | None,
        typer.Option("--to", metavar="NAME", autocompletion=format_names, help="Format of OUT; default by suffix."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="S", min=0.0, help="Seconds; then it gives up with status 1, and OUT stays as it was."),
    ] = None,
) -> None:
    """Convert a model between uai, lg, fg, cnf, wcsp, bif, xmlbif, net, xdsl and cfn, by suffix; .gz and .xz compress.

    OUT is replaced only when all of it has been written: after Ctrl-C or the time limit it is as it was before.
    """
    from equifactor.base.clock import Clock, TimeIsUp
    from equifactor.base.progress import bar
    from equifactor.formats import check_target, read_graph, write_graph

    check_target(target, format=target_format)
    before = _identity(target)
    try:
        with bar(target != "-", f"{source} to {target}", time_limit), Clock(time_limit).alarm():
            write_graph(read_graph(source, format=source_format), target, format=target_format)
    except TimeIsUp:
        if _identity(target) != before:  # the alarm rang when all was done
            return
        say(f"{target} is not written: the time limit of {time_limit:g} s has passed; raise it or leave it out")
        raise typer.Exit(Exit.UNSOLVED) from None


def _identity(path: str) -> tuple[int, int] | None:
    """What changes when a file is replaced; None where there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
