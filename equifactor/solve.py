"""The one call: `solve(graph, task, solver) -> Result`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from equifactor.clock import Clock
from equifactor.errors import OptionError, SolveError
from equifactor.graph import FactorGraph
from equifactor.result import Estimate, Result, Status, Task, impossible
from equifactor.solver import Progress, Run, Solver
from equifactor.spec import parse_solver

if TYPE_CHECKING:
    from equifactor.graph.factor_graph import Evidence


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
    evidence: Evidence | None = ...,
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
    evidence: Evidence | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    device: str = "cpu",
    dtype: Literal["float32", "float64"] = "float64",
    strict: bool = False,
    progress: Progress | bool = False,
) -> Result | list[Result]:
    """Marginals (MAR), ln Z (PR) or the most probable assignment (MAP) of a factor graph.

    Args:
        graph: one graph, or several different ones to be solved as one batch (one Result each).
        task: "MAR", "PR" or "MAP".
        solver: text such as `"bp(damping=0.5)"`, or a solver object; `equifactor solvers` lists them.
        evidence: states, or one weight per state for soft evidence, by variable; see `FactorGraph.condition`.
        time_limit: seconds; at the deadline the best answer so far comes back with status `time-limit`.
        seed: for solvers that draw random numbers.
        device: "cpu" or "cuda"; solvers without a GPU engine ignore it.
        dtype: float type of the torch engine.
        strict: raise `SolveError` unless the status is exact, optimal or converged.
        progress: True for a bar on stderr, or a callable `(done, total, note)`.

    Ctrl-C stops the run and returns the best answer so far with status `interrupted`; a second one raises.
    """
    single = isinstance(graph, FactorGraph)
    graphs = [graph] if isinstance(graph, FactorGraph) else list(graph)
    wanted = parse_task(task)
    method = parse_solver(solver)
    if wanted not in method.tasks:
        raise OptionError(f"{method.name} cannot do {wanted}; it does {', '.join(method.tasks)}")
    if time_limit is not None and not time_limit >= 0:
        raise OptionError(f"the time limit must be a number of seconds >= 0, found {time_limit}")
    if dtype not in ("float32", "float64"):
        raise OptionError(f"dtype must be float32 or float64, found {dtype!r}")
    if evidence:
        graphs = [g.condition(evidence) for g in graphs]

    clock = Clock(time_limit)
    with clock.catch_interrupt(), _progress_bar(progress, str(method)) as report:
        run = Run(clock=clock, seed=seed, device=device, dtype=dtype, progress=report)
        estimates = _run(method, graphs, wanted, run)
    share = clock.seconds / max(1, len(graphs))
    results = [_result(e, g, wanted, method, share) for e, g in zip(estimates, graphs, strict=True)]
    if strict:
        for result in results:
            if not result.status.solved:
                raise SolveError(f"{result.graph.name or 'graph'}: {result.message or result.status.advice}")
    return results[0] if single else results


def parse_task(task: str) -> Task:
    """A task by name, in any case; MPE is another name of MAP."""
    name = str(task).upper()
    if name == "MPE":
        return Task.MAP
    if name not in Task.__members__:
        raise OptionError(f"there is no task {task!r}; choose from: {', '.join(Task)}")
    return Task(name)


def _run(method: Solver, graphs: list[FactorGraph], task: Task, run: Run) -> list[Estimate]:
    """Run the method on the graphs that can have an answer; the others are impossible by inspection."""
    graphs = [_fix_single_states(g) for g in graphs]
    estimates: dict[int, Estimate] = {n: impossible() for n, g in enumerate(graphs) if has_zero_table(g)}
    todo = [n for n in range(len(graphs)) if n not in estimates]
    if todo:
        estimates |= zip(todo, method.run([graphs[n] for n in todo], task, run), strict=True)
    return [estimates[n] for n in range(len(graphs))]


def _fix_single_states(graph: FactorGraph) -> FactorGraph:
    """Observe the variables of one state, so that no solver has to carry them through its tables."""
    if graph.num_vars == 0 or graph.card.min() > 1:
        return graph
    free = graph.free_vars
    return graph.condition(dict.fromkeys(free[graph.card[free] == 1].tolist(), 0))


def has_zero_table(graph: FactorGraph) -> bool:
    """A factor that is zero everywhere: the sum of all scores is zero."""
    if graph.structure.num_entries == 0:
        return False
    return bool(np.any(np.isneginf(np.maximum.reduceat(graph.log_phi, graph.structure.table_ptr[:-1]))))


def _result(estimate: Estimate, graph: FactorGraph, task: Task, method: Solver, seconds: float) -> Result:
    fields = {f.name: getattr(estimate, f.name) for f in dataclasses.fields(estimate)}
    fields |= _without_nan(fields)
    score = None if estimate.assignment is None else graph.log_score(estimate.assignment)
    if task is Task.MAP and score is not None and fields["lower_bound"] is None:
        fields["lower_bound"] = score  # any assignment bounds the best one from below
    return Result(**fields, graph=graph, task=task, solver=str(method), log_score=score, seconds=seconds)


def _without_nan(fields: dict[str, Any]) -> dict[str, Any]:
    """Replacements that keep NaN from the user: the number goes, the status says so."""
    changed: dict[str, Any] = {}
    for name in ("log_z", "lower_bound", "upper_bound"):
        if fields[name] is not None and math.isnan(fields[name]):
            changed |= {name: None, "status": Status.NON_FINITE}
    marginals = fields["marginals"]
    if marginals is not None and not np.isfinite(marginals.values).all():
        changed |= {"marginals": None, "status": Status.NON_FINITE}
    return changed


def _progress_bar(progress: Progress | bool, title: str) -> Any:
    from equifactor import progress as bars

    return bars.bar(progress, title)
