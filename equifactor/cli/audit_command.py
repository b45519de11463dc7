"""`equifactor audit`: the symmetries that a solver claims, checked by measurement."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, cast

import typer

from equifactor.base.errors import ModelError, OptionError
from equifactor.cli.completions import model_files, words
from equifactor.cli.exit_status import Exit, say, terminal_width
from equifactor.cli.model_reader import ModelReader
from equifactor.cli.shared_options import (
    EvidencePaths,
    InputFormat,
    JsonLines,
    Plugins,
    Sample,
    Seed,
    SolverSpec,
    example,
)
from equifactor.show.text_tables import fitted

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.solving.solver import Solver
    from equifactor.symmetry.auditing import Finding
    from equifactor.symmetry.comparable_answers import Dtype

EXAMPLE = example(
    "equifactor generate ising --rows 4 --cols 4 --seed 3 -o grid.uai",
    'equifactor audit --solver "bp(damping=0.5)" grid.uai',
)


def audit(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            autocompletion=model_files,
            help="Model files; default small built-in graphs of many kinds.",
        ),
    ] = None,
    solver: SolverSpec = "auto",
    task: Annotated[
        str | None,
        typer.Option(
            metavar="MAR|PR|MAP",
            autocompletion=words("MAR", "PR", "MAP"),
            help="Check this task only; default all tasks of the solver.",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(metavar="N", min=1, help="Random relabellings per symmetry and model.")] = 3,
    seed: Seed = 0,
    float_type: Annotated[
        str, typer.Option("--dtype", metavar="float32|float64", help="Number type of solvers that run in torch.")
    ] = "float64",
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="X", min=0.0, help="Largest error with which a claim holds; default 1e-8, or 1e-3 in float32."
        ),
    ] = None,
    evidence: EvidencePaths = None,
    format: InputFormat = None,
    sample: Sample = None,
    as_json: JsonLines = False,
    plugin: Plugins = None,
) -> None:
    """Relabel models at random and check that the answers of a solver follow, for each of the three symmetries.

    The error is the largest difference in a probability, in ln Z, in the score of the MAP assignment or in a bound.
    The last three are relative to their size. If rounding alone changes an answer by more, because of a tie or because
    an iteration does not converge, the model is named and does not count. Exit status 1: a claim fails.
    """
    from equifactor.questions.solve import parse_task
    from equifactor.solving.registry import parse_solver
    from equifactor.symmetry.auditing import Trials
    from equifactor.symmetry.auditing import audit as run

    if float_type not in ("float32", "float64"):
        raise OptionError(f"--dtype must be float32 or float64, found {float_type!r}.")
    dtype = cast("Dtype", float_type)
    method = parse_solver(solver)
    if models:
        failed, graphs = _read(models, evidence, format, sample)
    elif evidence:
        raise OptionError("--evidence needs a model. Name the model files that the evidence belongs to.")
    else:
        failed, graphs = 0, _built_in(method, dtype)
    if failed and not graphs:
        raise typer.Exit(Exit.BAD_INPUT)
    tasks = None if task is None else [parse_task(task)]
    findings = run(method, graphs, trials=Trials(trials, seed, dtype), tasks=tasks, tolerance=tolerance, progress=True)
    _report(str(method), findings, as_json)
    if failed:
        raise typer.Exit(Exit.BAD_INPUT)
    if any(f.failed for f in findings):
        raise typer.Exit(Exit.NO)


def _read(
    paths: list[str], evidence: list[str] | None, format: str | None, sample: int | None
) -> tuple[int, list[FactorGraph]]:
    """Return the number of models that could not be read, and the other graphs, named by their files."""
    models = ModelReader(paths, evidence, format, sample)
    graphs = [graph.renamed(path) for path, graph in models]
    return models.failed, graphs


def _built_in(method: Solver, dtype: Dtype) -> list[FactorGraph]:
    """Return the built-in graphs that the solver supports; some solvers need a certain cardinality."""
    from equifactor.symmetry.comparable_answers import ask
    from equifactor.testing import contract_graphs

    graphs, reason, task = [], "", method.possible_tasks()[0]
    built_in = contract_graphs().values()
    for graph in built_in:
        try:
            ask(method, graph, task, 0, dtype)
        except ModelError as error:
            reason = reason or str(error)
        else:
            graphs.append(graph)
    if not graphs:
        raise ModelError(f"This solver supports none of the built-in graphs ({reason}). Name your own model files.")
    if reason:
        say(f"{len(built_in) - len(graphs)} of {len(built_in)} built-in graphs are left out: {reason}")
    return graphs


def _report(solver: str, findings: list[Finding], as_json: bool) -> None:
    if as_json:
        for f in findings:
            print(json.dumps({"solver": solver, **f.to_dict()}, allow_nan=False))
        return
    rows = [
        (
            f.violation.kind,
            "yes" if f.claimed else "no",
            f"{f.violation.error:.1e}" if f.cases else "-",
            f.verdict,
            f.violation.where,
        )
        for f in findings
    ]
    print(fitted([("SYMMETRY", "CLAIMED", "ERROR", "VERDICT", "LARGEST IN"), *rows], terminal_width()))
    for where in dict.fromkeys(v.where for f in findings for v in f.set_aside):
        say(f"{where}: not counted, because rounding alone changes the answer (a tie or an unconverged iteration)")
