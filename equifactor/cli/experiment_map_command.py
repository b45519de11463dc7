"""The part of `equifactor experiment` that is about MAP on folders of models."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from equifactor.cli.exit_status import Exit
from equifactor.errors import OptionError

if TYPE_CHECKING:
    from experiments.map_run import How


def chosen(*, train: str, parts: str | None, **rest: Any) -> How:
    """What the options of the command ask for."""
    from experiments.map_run import PARTS, TRAIN, How

    words = tuple(p.strip() for p in parts.split(",")) if parts else PARTS
    for word in words:
        if word not in PARTS:
            raise OptionError(f"--parts has no {word!r}; choose from: {', '.join(PARTS)}")
    if train not in TRAIN:
        raise OptionError(f"--train is one of {', '.join(TRAIN)}, found {train!r}")
    return How(train=train, parts=words, **rest)


def run_map(
    name: str, out: Path | None, how: How, *, quick: bool, collections: str | None, methods: str | None
) -> None:
    """Do the chosen piece, then print and write the tables of all that is done in the folder."""
    from equifactor.data import collection_names
    from equifactor.progress import bar
    from experiments.map_config import load_map
    from experiments.map_run import collect, run, write

    whole = load_map(name)
    whole = whole.quick() if quick else whole
    present = [n for n in whole.collections if n in collection_names(how.data)]
    if not present:
        raise OptionError(f"the folder has none of the collections {', '.join(whole.collections)}")
    folder = out or Path("experiments") / f"{whole.name}{'-quick' * quick}"
    with bar(True, f"experiment {whole.name}") as report:
        trouble = run(whole.selected(collections or ",".join(present), methods), folder, how, report)
    for sentence in trouble:
        print(f"missing: {sentence}; the same command goes on", file=sys.stderr)
    whole = replace(whole.selected(",".join(present), None), name=whole.name)
    written = write(whole, collect(whole, folder, how.data), folder)
    print(written[1].read_text(encoding="utf-8"))
    print("written: " + ", ".join(str(p) for p in written))
    if trouble:
        raise typer.Exit(Exit.UNSOLVED)
