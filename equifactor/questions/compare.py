"""Several solvers on one model, side by side: `compare(graph, solvers) -> Comparison`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from equifactor.base.errors import EquifactorError, MissingPackageError, ModelError, OptionError, brief
from equifactor.base.run_context import check_run
from equifactor.base.status import Status, Task
from equifactor.graph.factor_graph import FactorGraph
from equifactor.questions.comparison import ComparedSolver, Comparison
from equifactor.questions.result import Result
from equifactor.questions.solve import parse_task, solve
from equifactor.solving.registry import parse_solver
from equifactor.solving.solver import Solver

if TYPE_CHECKING:
    from equifactor.graph.reading.inputs import Evidence
    from equifactor.solving.solver import Progress

_REPEAT_BELOW = 5.0  # A run of fewer seconds is repeated, so that imports and compilation do not count. Chosen by hand.


def compare(
    graph: FactorGraph,
    solvers: Iterable[str | Solver] | Mapping[str, str | Solver] | str | Solver,
    *misplaced: NoReturn,
    task: str = "MAR",
    evidence: Evidence | None = None,
    reference: str | Solver | Result | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    progress: Progress | bool = False,
) -> Comparison:
    """Run several solvers on one graph and put their answers side by side.

    Args:
        graph: the model.
        solvers: texts such as `"bp(damping=0.5)"` or solver objects, or a mapping from a title to one.
        misplaced: must be empty; all other arguments have names.
        task: "MAR", "PR" or "MAP".
        evidence: states by variable, as for `solve`.
        reference: what the answers are compared with: one of the solvers, another one, which is then run too and
            comes first, or a `Result` on the same variables. By default the first of the solvers.
        time_limit: seconds for each solver.
        seed: for solvers that draw random numbers.
        progress: True for a bar on stderr, or a callable `(done, total, note)`.

    A misspelt solver raises `OptionError`. A solver that fails has a row that says why, and the comparison goes on.
    A run of less than 5 s is repeated, and the table shows the time of the second run, without imports and
    compilation. Ctrl-C keeps the answers so far and leaves the other solvers out.

    Examples:
        >>> import equifactor as ef
        >>> found = ef.compare(ef.generators.ising_grid(3, 3), ["exact", "bp"])
        >>> found["bp"].status, found["exact"].log_z == found.reference.log_z
        (<Status.CONVERGED: 'converged'>, True)
    """
    from equifactor.base.progress import bar

    if not isinstance(graph, FactorGraph):
        raise ModelError(
            f"compare takes one FactorGraph, found {brief(graph)}. Use evaluate to compare on many models."
        )
    if misplaced:
        raise OptionError(
            "compare takes the graph and the solvers, and everything else by name, as in "
            'compare(graph, ["exact", "bp"], task="MAR").'
        )
    wanted = parse_task(task)
    check_run(time_limit, seed, progress)
    given = graph if evidence is None else graph.condition(evidence)
    chosen, against = _with_reference(_titled(solvers), reference)
    for solver in chosen.values():
        with contextlib.suppress(MissingPackageError):  # this is a row of the table
            parse_solver(solver)
    settings = {"time_limit": time_limit, "seed": seed}
    rows: list[ComparedSolver] = []
    with bar(progress, "compare") as report:
        for title, solver in chosen.items():
            if report is not None:
                report(len(rows), len(chosen), title)
            stopped = any(r.result is not None and r.result.status is Status.INTERRUPTED for r in rows)
            rows.append(
                ComparedSolver(title, None, "The solver was not run because the comparison was interrupted.")
                if stopped
                else _run(given, wanted, title, solver, settings)
            )
    return Comparison(given, wanted, tuple(rows), *_reference(against, rows, given, wanted))


def _titled(solvers: Any) -> dict[str, Any]:
    """Return the solvers by title; without a title it is the text of the solver."""
    if isinstance(solvers, Mapping):
        found = {str(title): solver for title, solver in solvers.items()}
    elif isinstance(solvers, (str, Solver)):
        found = {str(solvers): solvers}
    else:
        try:
            listed = list(solvers)
        except TypeError:
            raise OptionError(f"Expected a list of solvers such as ['exact', 'bp'], found {brief(solvers)}.") from None
        found = {str(solver): solver for solver in listed}
        if len(found) < len(listed):
            raise OptionError("A solver is given twice. Use a mapping from titles to solvers to tell them apart.")
    if not found:
        raise OptionError("Expected at least one solver, such as ['exact', 'bp'], found an empty list.")
    return found


def _with_reference(
    solvers: dict[str, Any], reference: str | Solver | Result | None
) -> tuple[dict[str, Any], str | Result]:
    """Return all solvers to run, and the title of the reference or the reference itself."""
    if reference is None:
        return solvers, next(iter(solvers))
    if isinstance(reference, Result):
        return solvers, reference
    if not isinstance(reference, (str, Solver)):
        raise OptionError(f"The reference must be a solver or a Result, found {brief(reference)}.")
    if str(reference) in solvers:
        return solvers, str(reference)
    return {str(reference): reference, **solvers}, str(reference)


def _run(graph: FactorGraph, task: Task, title: str, solver: Any, settings: dict[str, Any]) -> ComparedSolver:
    """Return the row of one solver, also if the solver raises: the other rows must still be shown."""
    try:
        result = solve(graph, task, solver, **settings)
        if result.seconds < _REPEAT_BELOW and result.status is not Status.INTERRUPTED:
            result = solve(graph, task, solver, **settings)
    except EquifactorError as error:
        return ComparedSolver(title, None, str(error))
    except Exception as error:
        return ComparedSolver(title, None, f"{type(error).__name__}: {error}")
    return ComparedSolver(title, result, result.message or result.status.advice)


def _reference(
    against: str | Result, rows: list[ComparedSolver], graph: FactorGraph, task: Task
) -> tuple[Result | None, str]:
    """Return the answer that others are compared with, or None if its solver failed, and its title."""
    if isinstance(against, str):
        return next(row.result for row in rows if row.title == against), against
    if against.graph.card.tolist() != graph.card.tolist():
        raise ModelError(
            f"The reference is an answer on another model: {against.graph!r}. The solvers are compared on {graph!r}."
        )
    if against.task is not task:
        raise OptionError(f"The reference answers {against.task}, but the solvers are compared on {task}.")
    return against, against.solver
