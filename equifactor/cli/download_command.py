"""`equifactor download`: the public collections, into a folder."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from equifactor.base.errors import OptionError
from equifactor.cli.completions import public_collections
from equifactor.cli.exit_status import say
from equifactor.cli.shared_options import example, names_in

EXAMPLE = example("equifactor download --list")


def download(
    folder: Annotated[
        str | None, typer.Argument(metavar="FOLDER", help="Where to put them; made when missing.")
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,..", autocompletion=public_collections, help="Only these, such as Grids or MAR; default all."
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the collections and fetch nothing.")] = False,
) -> None:
    """Fetch the public UAI models and their known answers; run it again to go on after a failure.

    For example equifactor download models --collection Grids,MAR, then equifactor evaluate models. Every file is
    checked against its recorded hash. docs/data.md says what the collections hold.
    """
    from equifactor.data.public import download as fetch
    from equifactor.data.public import manifest

    if show:
        for name, count in Counter(record["collection"] for record in manifest()).items():
            print(f"{name:12}{count:4} models")
        return
    if folder is None:
        raise OptionError("name the folder the models should go to, or ask for --list")
    instances = fetch(folder, names_in(collection), progress=True)
    say(f"{len(instances)} models are in {folder}")
