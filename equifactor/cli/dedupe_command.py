"""`equifactor dedupe`: which models of a folder differ only in numbering and names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from equifactor.base.errors import FormatError
from equifactor.cli.exit_status import say
from equifactor.cli.model_reader import ModelReader
from equifactor.cli.shared_options import JsonLines, Tolerance, example

EXAMPLE = example(
    "equifactor generate ising --rows 4 --cols 4 --count 3 -o grids",
    "equifactor convert grids/ising_000.uai grids/again.uai",
    "equifactor dedupe grids",
)


def dedupe(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder with model files, also in subfolders.")],
    tolerance: Tolerance = 0.0,
    everything: Annotated[bool, typer.Option("--all", help="Also list models without a duplicate.")] = False,
    as_json: JsonLines = False,
) -> None:
    """List the classes of isomorphic models in a folder: models that differ only in numbering and names.

    The files after the first one of each class are duplicates. With a tolerance, every model is compared with the first
    of each class. --json lists all classes, also those of a single model.
    """
    from equifactor.base.progress import bar
    from equifactor.symmetry.isomorphism_classes import IsomorphismClasses

    models = ModelReader(_model_files(Path(folder)))
    classes = IsomorphismClasses(tolerance)
    members: list[list[str]] = []
    sizes: list[tuple[int, int]] = []
    with bar(True, "comparing") as report:
        for path, graph in models:
            n = classes.add(graph)
            if n == len(members):
                members.append([])
                sizes.append((graph.num_vars, graph.num_factors))
            members[n].append(path)
            if report is not None:
                report(sum(map(len, members)), len(models), "")
    for (variables, factors), files in zip(sizes, members, strict=True):
        if as_json:
            print(json.dumps({"variables": variables, "factors": factors, "models": files}))
        elif everything or len(files) > 1:
            print(f"{len(files)} x {variables} variables, {factors} factors")
            print("\n".join(f"  {file}" for file in files))
    read = sum(map(len, members))
    doubles = read - len(members)
    say(f"{read} models, {len(members)} different, {doubles} duplicate{'s' * (doubles != 1)}")
    models.exit_if_failed()


def _model_files(folder: Path) -> list[str]:
    """Return the model files below a folder, by suffix."""
    from equifactor.base.files import split_name
    from equifactor.formats import FORMATS

    if not folder.is_dir():
        raise FormatError(f"{folder}: this folder does not exist.")
    suffixes = {suffix for f in FORMATS.values() for suffix in f.suffixes} - {".xml"}  # an .xml file may be anything
    files = sorted(str(p) for p in folder.rglob("*") if split_name(p)[1] in suffixes and p.is_file())
    if not files:
        raise FormatError(f"{folder}: this folder has no model files; known suffixes: {' '.join(sorted(suffixes))}")
    return files
