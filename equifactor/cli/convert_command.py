"""`equifactor convert`: a model in another format."""

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
        typer.Option(
            metavar="S", min=0.0, help="Seconds; then the command ends with status 1 and leaves OUT unchanged."
        ),
    ] = None,
) -> None:
    """Convert a model between uai, lg, fg, cnf, wcsp, bif, xmlbif, net, xdsl and cfn, by suffix; .gz and .xz compress.

    OUT is replaced only after everything has been written: Ctrl-C and the time limit leave it unchanged.
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
        if _identity(target) != before:  # The time ran out after the file had been written.
            return
        say(f"{target} was not written within the time limit of {time_limit:g} s; raise --time-limit or leave it out")
        raise typer.Exit(Exit.UNSOLVED) from None


def _identity(path: str) -> tuple[int, int] | None:
    """Return the inode and the time of change of a file, which differ after it is replaced; None without a file."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
