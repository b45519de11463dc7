"""`equifactor download`: the public collections of models."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from equifactor.base.errors import OptionError
from equifactor.cli.exit_status import say
from equifactor.cli.shared_options import Collections, example, names_in

EXAMPLE = example("equifactor download --list")


def download(
    folder: Annotated[
        str | None, typer.Argument(metavar="FOLDER", help="Where the models go; created if it does not exist.")
    ] = None,
    collection: Collections = None,
    show: Annotated[bool, typer.Option("--list", help="List the collections and download nothing.")] = False,
) -> None:
    """Download the public UAI models and their known answers. After a failure, run it again to continue.

    For example equifactor download models --collection Grids,MAR, then equifactor evaluate models. Every file is
    checked against its recorded hash. --list shows the collections.
    """
    from equifactor.data.public import download as fetch
    from equifactor.data.public import manifest

    if show:
        for name, count in Counter(record["collection"] for record in manifest()).items():
            print(f"{name:12}{count:4} models")
        return
    if folder is None:
        raise OptionError("Name the folder for the models, or pass --list to see the collections.")
    instances = fetch(folder, names_in(collection), progress=True)
    say(f"{len(instances)} models are in {folder}")
