"""`equifactor download`: the public collections, into a folder."""

from __future__ import annotations

from typing import Annotated

import typer

from equifactor.cli.options import example
from equifactor.cli.status import say

EXAMPLE = example("equifactor download models --collection Grids", "equifactor evaluate models --task MAP")


def download(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Where to put them; made when missing.")],
    collection: Annotated[
        str | None, typer.Option(metavar="NAME,..", help="Only these, such as Grids or MAR; default all.")
    ] = None,
) -> None:
    """Fetch the public UAI models and their known answers; run it again to go on after a failure.

    Every file is checked against its recorded hash. docs/data.md lists the collections.
    """
    from equifactor.data import download as fetch

    names = [n.strip() for n in collection.split(",") if n.strip()] if collection else None
    instances = fetch(folder, names, progress=True)
    say(f"{len(instances)} models are in {folder}")
