"""`equifactor compare`: several solvers on one model, side by side."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from equifactor.cli.completions import solver_specs
from equifactor.cli.model_reader import ModelReader
from equifactor.cli.shared_options import (
    EvidencePaths,
    InputFormat,
    JsonLines,
    ModelPath,
    Plugins,
    TaskName,
    example,
)

EXAMPLE = example(
    "equifactor generate ising --rows 5 --cols 5 -o grid.uai",
    'equifactor compare grid.uai --solver exact --solver bp --solver "bp(damping=0.5)"',
)


def compare(
    model: ModelPath,
    solver: Annotated[
        list[str],
        typer.Option(
            "--solver",
            "-s",
            metavar="SPEC",
            autocompletion=solver_specs,
            help="A solver, as for equifactor solve; give it several times. The first is the reference.",
        ),
    ],
    evidence: EvidencePaths = None,
    task: TaskName = "MAR",
    time_limit: Annotated[float | None, typer.Option(metavar="S", help="Seconds per solver.")] = None,
    as_json: JsonLines = False,
    format: InputFormat = None,
    plugin: Plugins = None,
) -> None:
    """Run several solvers on one model and print a table: differences from the first, ln Z or score, time, status."""
    from equifactor.questions.compare import compare as compared
    from equifactor.solving.registry import parse_solver

    for text in solver:
        parse_solver(text)  # A misspelt solver is wrong usage. A solver that cannot do the task is a row of the table.
    graphs = ModelReader([model], evidence, format)
    for _, graph in graphs:
        found = compared(graph, solver, task=task, time_limit=time_limit, progress=True)
        print("\n".join(json.dumps(row, allow_nan=False) for row in found.to_dicts()) if as_json else found)
    graphs.exit_if_failed()
