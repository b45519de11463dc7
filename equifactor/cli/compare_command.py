"""`equifactor compare`: several solvers on one model, side by side."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from equifactor.cli.exit_status import Exit
from equifactor.cli.model_reader import ModelReader
from equifactor.cli.shared_options import EvidencePaths, InputFormat, Plugins, example

EXAMPLE = example(
    "equifactor generate ising --rows 5 --cols 5 -o grid.uai",
    'equifactor compare grid.uai --solver exact --solver bp --solver "bp(damping=0.5)"',
)


def compare(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file; - is stdin.")],
    solver: Annotated[
        list[str], typer.Option("--solver", "-s", metavar="SOLVER", help="May be repeated; the first is the reference.")
    ],
    evidence: EvidencePaths = None,
    task: Annotated[str, typer.Option("--task", "-t", metavar="TASK", help="MAR, PR or MAP.")] = "MAR",
    time_limit: Annotated[float | None, typer.Option(metavar="S", help="Seconds for each solver.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line and solver.")] = False,
    format: InputFormat = None,
    plugin: Plugins = None,
) -> None:
    """Run several solvers on one model and print one table: differences to the first, ln Z or score, time, status."""
    from equifactor.questions.compare import compare as compared

    graphs = ModelReader([model], evidence, format)
    for _, graph in graphs:
        found = compared(graph, solver, task=task, time_limit=time_limit, progress=True)
        print("\n".join(json.dumps(row, allow_nan=False) for row in found.to_dicts()) if as_json else found)
    if graphs.failed:
        raise typer.Exit(Exit.BAD_INPUT)
