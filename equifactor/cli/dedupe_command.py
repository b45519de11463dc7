"""`equifactor dedupe`: which models of a folder are the same but for numbers and names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from equifactor.base.errors import FormatError
from equifactor.cli.exit_status import Exit, say
from equifactor.cli.model_reader import ModelReader
from equifactor.cli.shared_options import Tolerance, example

EXAMPLE = example(
    "equifactor generate ising --rows 4 --cols 4 --count 3 -o grids",
    "equifactor convert grids/ising_000.uai grids/again.uai",
    "equifactor dedupe grids",
)


def dedupe(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Looked through for model files, subfolders too.")],
    tolerance: Tolerance = 0.0,
    everything: Annotated[bool, typer.Option("--all", help="Also list models that have no double.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per class, those of one model too.")] = False,
) -> None:
    """List the classes of isomorphic models in a folder: one model under other numbers and names.

    The first file of each class stands for it; the others can go. With a tolerance every model is compared with the
    first of each class.
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
    say(f"{read} models, {len(members)} different, {doubles} double{'s' * (doubles != 1)}")
    if models.failed:
        raise typer.Exit(Exit.BAD_INPUT)


def _model_files(folder: Path) -> list[str]:
    """The files below a folder whose suffixes say that they are models."""
    from equifactor.base.files import split_name
    from equifactor.formats import FORMATS

    if not folder.is_dir():
        raise FormatError(f"{folder}: there is no such folder")
    suffixes = {suffix for f in FORMATS.values() for suffix in f.suffixes} - {".xml"}  # which may be anything
    files = sorted(str(p) for p in folder.rglob("*") if split_name(p)[1] in suffixes and p.is_file())
    if not files:
        raise FormatError(f"{folder}: no model files in this folder; known suffixes: {' '.join(sorted(suffixes))}")
    return files
