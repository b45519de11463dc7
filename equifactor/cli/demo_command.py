"""`equifactor demo`: the main job on a small embedded example."""

from __future__ import annotations

from typing import Annotated

import typer

from equifactor.cli.command_options import example

EXAMPLE = example("equifactor demo -o demo-output")


def demo(
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the picture; made when missing."),
    ] = "demo-output",
    seed: Annotated[int | None, typer.Option(metavar="N", help="Of the spin glass; default one that is hard.")] = None,
) -> None:
    """Solve a seeded 5x5 spin glass with several solvers, compare them with the exact answer, draw it."""
    from equifactor.cli.demo_output import SEED, show

    show(output, SEED if seed is None else seed)
