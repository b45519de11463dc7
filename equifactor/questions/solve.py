"""The one call: `solve(graph, task, solver) -> Result`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError, OptionError, SolveError, brief
from equifactor.base.options import choices, format_method
from equifactor.base.run_context import Progress, check_run
from equifactor.base.status import Status, Task
from equifactor.graph import FactorGraph
from equifactor.graph.factor_graph import as_graphs
from equifactor.graph.marginals import Marginals
from equifactor.graph.scores import batch_log_scores
from equifactor.questions.result import Result
from equifactor.questions.solve_settings import SolveSettings
from equifactor.solving.estimate import Estimate
from equifactor.solving.registry import parse_solver
from equifactor.solving.running import estimates_of
from equifactor.solving.solver import SolveContext, Solver

if TYPE_CHECKING:
    from equifactor.graph.reading.inputs import Evidence

_ARGUMENTS = ("evidence", "time_limit", "seed", "device", "dtype", "strict", "progress")
_NO_MEMORY = "The memory of this machine does not hold what the solver needs: use another one or a smaller model."
_NO_SUPPORT = "The assignment has probability zero: no possible one was found, and there may be none."


@overload
def solve(
    graph: FactorGraph,
    task: str = ...,
    solver: str | Solver = ...,
    *,
    evidence: Evidence | None = ...,
    time_limit: float | None = ...,
    seed: int = ...,
    device: str = ...,
    dtype: Literal["float32", "float64"] = ...,
    strict: bool = ...,
    progress: Progress | bool = ...,
) -> Result: ...
@overload
def solve(
    graph: Sequence[FactorGraph],
    task: str = ...,
    solver: str | Solver = ...,
    *,
    evidence: Evidence | Sequence[Evidence | None] | None = ...,
    time_limit: float | None = ...,
    seed: int = ...,
    device: str = ...,
    dtype: Literal["float32", "float64"] = ...,
    strict: bool = ...,
    progress: Progress | bool = ...,
) -> list[Result]: ...
def solve(
    graph: FactorGraph | Sequence[FactorGraph],
    task: str = "MAR",
    solver: str | Solver = "auto",
    *,
    evidence: Evidence | Sequence[Evidence | None] | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    device: str = "cpu",
    dtype: Literal["float32", "float64"] = "float64",
    strict: bool = False,
    progress: Progress | bool = False,
    **unknown: object,
) -> Result | list[Result]:
    """Marginals (MAR), ln Z (PR) or the most probable assignment (MAP) of a factor graph.

    Args:
        graph: one graph, or several different ones to be solved as one batch (one Result each).
        task: "MAR", "PR" or "MAP".
        solver: text such as `"bp(damping=0.5)"`, or a solver object; `equifactor solvers` lists them.
        evidence: states, or one weight per state for soft evidence, by variable and for all graphs alike, or for
            several graphs a list with such a mapping (or None) for each; `FactorGraph.condition` says how they are
            read.
        time_limit: seconds; at the deadline the best answer so far comes back with status `time-limit`.
        seed: for solvers that draw random numbers.
        device: "cpu" or "cuda"; solvers without a GPU engine ignore it.
        dtype: float type of the torch engine.
        strict: raise `SolveError` unless the status is exact, optimal or converged.
        progress: True for a bar on stderr, or a callable `(done, total, note)`.
        **unknown: none; anything else is an error that tells how options of a solver are written.

    Ctrl-C stops the run and returns the best answer so far with status `interrupted`; a second one raises.
    """
    if unknown:
        raise _unknown_argument(solver, unknown)
    graphs = as_graphs(graph)
    wanted = parse_task(task)
    method = parse_solver(solver)
    method.check_task(wanted)
    check_run(time_limit, seed, progress)
    if not isinstance(device, str):
        raise OptionError(f"the device must be a name such as cpu or cuda, found {brief(device)}")
    if not isinstance(dtype, str) or dtype not in ("float32", "float64"):
        raise OptionError(f"dtype must be float32 or float64, found {brief(dtype)}")
    if not isinstance(strict, (bool, np.bool_)):
        raise OptionError(f"strict must be True or False, found {brief(strict)}")
    if evidence is not None:
        graphs = _given(graphs, evidence, several=not isinstance(graph, FactorGraph))

    clock, label = Clock(time_limit), str(method)
    with clock.catch_interrupt(), _progress_bar(progress, label, time_limit) as report:
        context = SolveContext(clock=clock, seed=seed, device=device, dtype=dtype, progress=report)
        try:
            estimates = estimates_of(method, graphs, wanted, context)
        except MemoryError:
            estimates = [Estimate(status=Status.TOO_LARGE, message=_NO_MEMORY) for _ in graphs]
    share = clock.seconds / max(1, len(graphs))
    settings = SolveSettings(method, seed, device, dtype, time_limit)
    results = _results(estimates, graphs, task=wanted, solver=label, seconds=share, settings=settings)
    if strict:
        for result in results:
            if not result.status.solved:
                raise SolveError(f"{result.graph.name or 'graph'}: {result.message or result.status.advice}")
    return results[0] if isinstance(graph, FactorGraph) else results


def _given(
    graphs: list[FactorGraph], evidence: Evidence | Sequence[Evidence | None], several: bool
) -> list[FactorGraph]:
    """The graphs given evidence that is for all of them, or one for each."""
    if not isinstance(evidence, (list, tuple)):
        return [g.condition(evidence) for g in graphs]  # type: ignore[arg-type]
    if not several:
        raise ModelError(
            f"evidence on one graph is a mapping from variable to state, such as {{0: 1}}; found {brief(evidence)}; "
            "for several questions give as many graphs: solve([graph] * 2, evidence=[first, second])"
        )
    if len(evidence) != len(graphs):
        raise ModelError(f"expected one evidence for each of {len(graphs)} graphs, found {len(evidence)}")
    return [g if e is None else g.condition(e) for g, e in zip(graphs, evidence, strict=True)]


def parse_task(task: str) -> Task:
    """A task by name, in any case; MPE is another name of MAP."""
    name = task.upper() if isinstance(task, str) else ""
    if name == "MPE":
        return Task.MAP
    if name not in Task.__members__:
        raise OptionError(f"there is no task {brief(task)}; {choices(str(task), list(Task))}")
    return Task(name)


def _results(estimates: list[Estimate], graphs: list[FactorGraph], *, task: Task, **common: Any) -> list[Result]:
    """Each estimate with its graph, its score and what is common to the batch."""
    estimates = _without_nan(estimates)
    found = [(g, e.assignment) for g, e in zip(graphs, estimates, strict=True) if e.assignment is not None]
    scores = iter(batch_log_scores(*zip(*found, strict=True)) if found else ())
    results = []
    for estimate, graph in zip(estimates, graphs, strict=True):
        fields = {**vars(estimate), **common, "graph": graph, "task": task}
        for name in ("marginals", "standard_errors") if graph.structure.variable_names is not None else ():
            if fields.get(name) is not None:
                fields[name] = Marginals(fields[name].values, fields[name].ptr, graph.structure)
        if estimate.assignment is not None:
            score = fields["log_score"] = next(scores)
            if task is Task.MAP and score == -math.inf:
                fields["message"] = f"{estimate.message} {_NO_SUPPORT}".strip()
            elif task is Task.MAP and estimate.lower_bound is None:
                fields["lower_bound"] = score  # any assignment bounds the best one from below
        results.append(Result.of(fields))
    return results


def _without_nan(estimates: list[Estimate]) -> list[Estimate]:
    """Keep NaN from the user: the number goes, the status says so. Looked for in all marginals of a batch at once."""
    found = [e.marginals.values for e in estimates if e.marginals is not None]
    all_finite = not found or math.isfinite(np.concatenate(found).sum())
    checked = []
    for estimate in estimates:
        bad: dict[str, Any] = {}
        for name in ("log_z", "lower_bound", "upper_bound"):
            value = getattr(estimate, name)
            if value != value:  # NaN alone is not itself; None is
                bad[name] = None
        if not (all_finite or estimate.marginals is None or math.isfinite(estimate.marginals.values.sum())):
            bad["marginals"] = None
        checked.append(replace(estimate, **bad, status=Status.NON_FINITE) if bad else estimate)
    return checked


def _unknown_argument(solver: str | Solver, unknown: dict[str, object]) -> OptionError:
    """The error for an argument that `solve` does not have; the options of a solver belong to the solver."""
    method = parse_solver(solver)
    options = {f.name for f in dataclasses.fields(method)}
    if unknown.keys() <= options:
        with_them = format_method(replace(method, **unknown))
        return OptionError(
            f"solve has no argument {next(iter(unknown))}, which is an option of {method.name}; options are written "
            f'with the solver: solver="{with_them}"'
        )
    name = next(name for name in unknown if name not in options)
    return OptionError(
        f"neither solve nor {method.name} has {name}; {choices(name, (*_ARGUMENTS, *sorted(options)))}; options of the "
        'solver are written with it: solver="bp(damping=0.5)"'
    )


def _progress_bar(progress: Progress | bool, title: str, time_limit: float | None) -> Any:
    from equifactor.base import progress as bars

    return bars.bar(progress, title, time_limit)
