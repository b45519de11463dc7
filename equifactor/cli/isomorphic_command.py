"""`equifactor isomorphic`: whether two models differ only in numbering and names."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from equifactor.cli.completions import model_files
from equifactor.cli.exit_status import Exit
from equifactor.cli.model_reader import ModelReader
from equifactor.cli.shared_options import EvidencePaths, InputFormat, Sample, Tolerance, example

EXAMPLE = example(
    "equifactor generate tree --num-vars 50 --card 2-4 --seed 3 -o tree.uai",
    "equifactor convert tree.uai tree.fg",
    "equifactor isomorphic tree.uai tree.fg --tolerance 1e-9 --mapping mapping.json",
)


def isomorphic(
    first: Annotated[str, typer.Argument(metavar="A", autocompletion=model_files, help="Model file; - is stdin.")],
    second: Annotated[str, typer.Argument(metavar="B", autocompletion=model_files, help="Model file; - is stdin.")],
    mapping: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the relabelling that turns A into B, as JSON; - is stdout."),
    ] = None,
    tolerance: Tolerance = 0.0,
    evidence: EvidencePaths = None,
    format: InputFormat = None,
    sample: Sample = None,
) -> None:
    """Tell whether A and B differ only in the numbering of variables, factors, scope positions and states.

    Exit status 0: isomorphic, 1: not. FILE maps the numbers of A to those of B: lists "variables" and "factors",
    "scopes" with a list of positions for each factor of A, "states" with a list of states for each variable of A. It
    is written only if A and B are isomorphic. Names are ignored; scale and evidence are not.
    """
    from equifactor.base.files import check_writable, write_text
    from equifactor.base.progress import bar
    from equifactor.symmetry import isomorphism

    if mapping is not None:
        check_writable(mapping)
    models = ModelReader([first, second], evidence, format, sample)
    graphs = [graph for _, graph in models]
    models.exit_if_failed()
    with bar(True, "comparing"):
        r = isomorphism(graphs[0], graphs[1], tolerance)
    if mapping != "-":
        print("not isomorphic" if r is None else "isomorphic")
    if r is None:
        raise typer.Exit(Exit.NO)
    if mapping is not None:
        write_text(mapping, json.dumps(r.to_dict()) + "\n")
