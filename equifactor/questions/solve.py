"""The main call: `solve(graph, task, solver) -> Result`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np

from equifactor.base.clock import Clock, NotCompiledError
from equifactor.base.cores import num_threads
from equifactor.base.errors import ModelError, OptionError, SolveError, brief
from equifactor.base.options import choices, split_text
from equifactor.base.progress import bar as progress_bar
from equifactor.base.run_context import Progress, check_run
from equifactor.base.status import Status, Task
from equifactor.graph import FactorGraph
from equifactor.graph.factor_graph import as_graphs
from equifactor.graph.interventions import intervened
from equifactor.graph.reading.observations import is_mapping
from equifactor.graph.reading.state_rows import is_frame
from equifactor.questions.circuit_answers import is_circuit, solve_circuit
from equifactor.questions.possible_answers import with_possibility
from equifactor.questions.result_making import ASKED, results_of, with_compile_time, without_nan
from equifactor.questions.samples import Samples
from equifactor.questions.solve_settings import SolveSettings
from equifactor.questions.unread_result import unread_results
from equifactor.solving.estimate import Estimate, LazyEstimates
from equifactor.solving.registry import parse_solver, solver_names
from equifactor.solving.running import estimates_of, without_kernels
from equifactor.solving.solver import SolveContext, Solver

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.reading.inputs import Evidence, Variable
    from equifactor.questions.frames import DataFrame
    from equifactor.questions.many_results import ManyResults, RowAnswer
    from equifactor.questions.result import Result
    from equifactor.solvers.counting.model_circuit import Circuit

_ARGUMENTS = (
    "evidence",
    "do",
    "query",
    "targets",
    "time_limit",
    "seed",
    "device",
    "dtype",
    "threads",
    "strict",
    "progress",
)
_NO_MEMORY = "The solver needs more memory than this machine has. Use another solver or a smaller model."


@overload
def solve(
    graph: FactorGraph,
    task: str = ...,
    solver: str | Solver = ...,
    *,
    evidence: Evidence | None = ...,
    do: Evidence | None = ...,
    query: Sequence[Variable] | None = ...,
    time_limit: float | None = ...,
    seed: int = ...,
    device: str = ...,
    dtype: Literal["float32", "float64"] = ...,
    threads: int | None = ...,
    strict: bool = ...,
    progress: Progress | bool = ...,
    **settings: Any,
) -> Result: ...
@overload
def solve(
    graph: FactorGraph,
    task: str = ...,
    solver: str | Solver = ...,
    *,
    evidence: Sequence[Evidence] | np.ndarray | DataFrame,
    do: Evidence | None = ...,
    targets: Sequence[Variable] | None = ...,
    time_limit: float | None = ...,
    seed: int = ...,
    device: str = ...,
    dtype: Literal["float32", "float64"] = ...,
    threads: int | None = ...,
    strict: bool = ...,
    progress: Progress | bool = ...,
    **settings: Any,
) -> ManyResults: ...
@overload
def solve(
    graph: Sequence[FactorGraph],
    task: str = ...,
    solver: str | Solver = ...,
    *,
    evidence: Evidence | Sequence[Evidence | None] | None = ...,
    do: Evidence | None = ...,
    query: Sequence[Variable] | None = ...,
    time_limit: float | None = ...,
    seed: int = ...,
    device: str = ...,
    dtype: Literal["float32", "float64"] = ...,
    threads: int | None = ...,
    strict: bool = ...,
    progress: Progress | bool = ...,
    **settings: Any,
) -> list[Result]: ...
@overload
def solve(graph: Circuit, task: str = ..., *, evidence: Any = ..., targets: Sequence[Variable] | None = ...) -> Any: ...
def solve(
    graph: FactorGraph | Sequence[FactorGraph] | Circuit,
    task: str = "MAR",
    solver: str | Solver = "auto",
    *,
    evidence: Any = None,
    do: Evidence | None = None,
    query: Sequence[Variable] | None = None,
    targets: Sequence[Variable] | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    device: str = "cpu",
    dtype: Literal["float32", "float64"] = "float64",
    threads: int | None = None,
    strict: bool = False,
    progress: Progress | bool = False,
    **settings: Any,
) -> Result | ManyResults | RowAnswer | list[Result]:
    """Return marginals (MAR), ln Z (PR), the most probable assignment (MAP) or marginal MAP (MMAP) of a factor graph.

    Args:
        graph: one graph, or a list of graphs, which are solved as one batch; or a circuit of `compile_circuit`, which
            answers a list of evidence by a `ManyResults` and a single mapping by one of its rows.
        task: "MAR", "PR", "MAP", or "MMAP", the most probable states of the `query` variables.
        solver: text such as `"bp(damping=0.5)"`, or a solver object; `equifactor solvers` lists them.
        evidence: a mapping from variable to state, or to one weight per state for soft evidence, as
            `FactorGraph.condition` reads it. For many questions on one graph: a list of such mappings, a pandas frame
            with a column per variable (a missing value leaves the variable free), or whole numbers [B, V] (-1 leaves
            it free). For a list of graphs: one mapping for all graphs, or a list with a mapping or None for each.
        do: variables of a Bayesian network that are set to a state from outside, as a mapping from variable to state.
            Their tables no longer matter, and ln Z is that of p(evidence | do). `ModelError` for any other graph.
        query: for MMAP, the variables to maximise over, by name or number. All others are summed out.
        targets: the variables to answer for, by name or number; by default all of them. For one set of evidence, only
            the part of the graph is solved on which they depend. Other variables may then have no marginals, and ln Z
            is missing if a part with evidence of its own was left out.
        time_limit: seconds for the whole call; at the deadline the best answer so far has status `time-limit`.
        seed: for solvers that draw random numbers.
        device: "cpu" or "cuda"; solvers without a GPU engine ignore it.
        dtype: float type of the torch engine.
        threads: of the CPU; default all cores that are free, or EQUIFACTOR_THREADS. They share lists of graphs and of
            evidence, the chains of samplers, and large graphs; docs/choosing.md lists what each solver shares. The
            answer does not depend on their number, except for the last digits in torch.
        strict: raise `SolveError` unless every status is exact, optimal or converged.
        progress: True for a bar on stderr, or a callable `(done, total, note)`.
        **settings: settings of the solver: `solve(graph, "MAR", "bp", damping=0.5)` is the same as
            `solve(graph, "MAR", "bp(damping=0.5)")`.

    Returns:
        A `Result` for one graph, and a list of results for several graphs. Many sets of evidence on one graph give a
        `ManyResults`, which holds arrays with a row per set. If the graph is small enough for exact inference, all sets
        share one elimination: thousands of sets a second on networks of tens of variables.

    Ctrl-C stops the run and returns the best answer so far with status `interrupted`; a second one raises.

    Examples:
        >>> import equifactor as ef
        >>> graph = ef.FactorGraph({"rain": 2, "grass": ["dry", "wet"]}, [
        ...     (["rain"], [0.8, 0.2]),
        ...     (["rain", "grass"], [[0.9, 0.1], [0.05, 0.95]]),
        ... ])
        >>> ef.solve(graph, evidence={"grass": "wet"}).marginals["rain"].round(3)
        array([0.296, 0.704])
        >>> many = ef.solve(graph, evidence=[{"grass": "wet"}, {"grass": "dry"}, {}], targets=["rain"])
        >>> many.marginals["rain"].round(3)
        array([[0.296, 0.704],
               [0.986, 0.014],
               [0.8  , 0.2  ]])
    """
    wanted = parse_task(task, with_query=True)
    if is_circuit(graph):
        if do is not None or settings or solver != "auto":
            raise OptionError("A circuit has its answers in itself: do=, a solver and its settings need the graph.")
        check_run(time_limit, seed, progress)
        return solve_circuit(cast("Circuit", graph), wanted, evidence, targets, time_limit, progress)
    graphs = as_graphs(cast("FactorGraph", graph))
    method = _method(solver, settings)
    method.check_task(wanted)
    check_run(time_limit, seed, progress)
    if not isinstance(device, str):
        raise OptionError(f"The device must be a name such as cpu or cuda, found {brief(device)}.")
    if not isinstance(dtype, str) or dtype not in ("float32", "float64"):
        raise OptionError(f"dtype must be float32 or float64, found {brief(dtype)}.")
    if not isinstance(strict, (bool, np.bool_)):
        raise OptionError(f"strict must be True or False, found {brief(strict)}.")
    cores = None if threads is None else num_threads(threads)
    how = SolveSettings(method, seed, device, dtype, time_limit)
    if do is not None:
        graphs = [intervened(g, do) for g in graphs]
        graph = graphs[0] if isinstance(graph, FactorGraph) else graphs
    if isinstance(evidence, Samples):
        evidence = evidence.states
    if (query is not None) != (wanted is Task.MMAP):
        raise OptionError(
            "MMAP needs query=[..], the variables to maximise over."
            if query is None
            else f"query= goes with the task MMAP, found {wanted}."
        )
    if isinstance(graph, FactorGraph) and _is_many(evidence):
        if wanted is Task.MMAP:
            raise OptionError("MMAP takes one set of evidence at a time. Call solve once for each set.")
        from equifactor.questions.many_answers import solve_sets

        many = solve_sets(graph, evidence, targets, wanted, how, progress, cores)
        if strict and not many.solved.all():
            raise SolveError(many.message)
        return many
    if evidence is not None:
        graphs = _given(graphs, evidence)

    if targets is not None:
        from equifactor.questions.target_answers import solve_targets

        if wanted is not Task.MAR or not isinstance(graph, FactorGraph):
            raise OptionError("targets= goes with the task MAR and one graph.")
        return solve_targets(graphs[0], targets, how, threads=threads, strict=strict, progress=progress)

    clock, label = Clock(time_limit), str(method)
    with progress_bar(progress, label, time_limit) as report, clock.govern():
        asked = None if query is None else query_of(graphs, query)
        context = SolveContext(
            clock=clock, seed=seed, device=device, dtype=dtype, threads=cores, progress=report, query=asked
        )
        try:
            estimates: Sequence[Estimate] = estimates_of(method, graphs, wanted, context)
        except MemoryError:
            estimates = [Estimate(status=Status.TOO_LARGE, message=_NO_MEMORY) for _ in graphs]
        except NotCompiledError as error:  # before the solver began
            estimates = [without_kernels(error, context) for _ in graphs]
        if not wanted.maximises:
            with contextlib.suppress(NotCompiledError):  # The answers stand, without what is known of possibility.
                estimates = with_possibility(estimates, graphs, clock)
    if asked is not None:
        estimates = [_of_query(estimate, g, asked) for estimate, g in zip(estimates, graphs, strict=True)]
    share = clock.seconds / max(1, len(graphs))
    if clock.compiling > 0.0:
        if isinstance(estimates, LazyEstimates):
            estimates = estimates.map(lambda _, estimate: with_compile_time(estimate, clock))
        else:
            estimates = [with_compile_time(estimate, clock) for estimate in estimates]
    common: dict[str, Any] = {"task": wanted, "solver": label, "seconds": share, "settings": how}
    if isinstance(estimates, LazyEstimates):
        own = estimates
        results = unread_results(len(graphs), lambda n: results_of([own[n]], [graphs[n]], **common)[0])
    else:
        results = results_of(without_nan(estimates), graphs, **common)
    if strict:
        for result in results:
            if not result.status.solved:
                raise SolveError(f"{result.graph.name or 'graph'}: {result.message or result.status.advice}")
    return results[0] if isinstance(graph, FactorGraph) else results


def query_of(graphs: Sequence[FactorGraph], query: Sequence[Variable]) -> IntArray:
    """Return the numbers of the variables of a query, which must be the same in all graphs."""
    if isinstance(query, (str, bytes)) or not isinstance(query, Iterable):
        raise OptionError(f"query must be a list of variables, such as query=['rain'], found {brief(query)}.")
    names = list(query)
    rows = [[graph.variable(v) for v in names] for graph in graphs]
    found = rows[0] if rows else []
    if any(row != found for row in rows):
        raise OptionError("The query has other variable numbers in another graph. Solve the graphs one by one.")
    if len(set(found)) < len(found):
        raise OptionError("The query names a variable twice. Name it once.")
    return np.array(found, np.int64)


def _of_query(estimate: Estimate, graph: FactorGraph, query: IntArray) -> Estimate:
    """Return the estimate with states of the query and of observed variables alone, -1 for all others."""
    if estimate.assignment is None:
        return estimate
    states = np.full(graph.num_vars, -1) if graph.observed is None else graph.observed.copy()
    states[query] = estimate.assignment[query]
    return replace(estimate, assignment=states)


def _is_many(evidence: object) -> bool:
    """Return whether evidence holds many sets: mappings in a list or another collection, a frame, or an array."""
    if isinstance(evidence, (str, bytes)) or evidence is None:
        return False
    if isinstance(evidence, np.ndarray) and evidence.ndim == 1 and evidence.dtype.kind in "iuf":
        return False  # the states of one row of samples
    return is_frame(evidence) or (isinstance(evidence, Iterable) and not is_mapping(evidence))


def _given(graphs: list[FactorGraph], evidence: Evidence | Sequence[Evidence | None]) -> list[FactorGraph]:
    """Return the graphs given evidence that holds for all of them, or given one mapping each."""
    if not isinstance(evidence, (list, tuple)):
        return [g.condition(evidence) for g in graphs]  # type: ignore[arg-type]
    if len(evidence) != len(graphs):
        raise ModelError(f"Expected one evidence mapping for each of {len(graphs)} graphs, found {len(evidence)}.")
    return [g if e is None else g.condition(e) for g, e in zip(graphs, evidence, strict=True)]


def parse_task(task: str, *, with_query: bool = False) -> Task:
    """Return a task by its name in upper or lower case; MPE is another name of MAP.

    MMAP is refused unless `with_query`, since only `solve` takes a query.
    """
    name = task.upper() if isinstance(task, str) else ""
    if name == "MPE":
        return Task.MAP
    if name not in Task.__members__:
        known = ", ".join(f"{t} ({ASKED[t]})" for t in Task)
        text = f"There is no task {brief(task)}. The tasks are {known}."
        if _is_solver(task):
            text += f" {task} is a solver: write solver={brief(task)}, or --solver on the command line."
        elif is_mapping(task):
            text += f" A mapping of observed states is evidence: write evidence={brief(task)}."
        raise OptionError(text)
    if name == Task.MMAP and not with_query:
        raise OptionError("The task MMAP needs a query, so it is for solve alone. Use MAR, PR or MAP.")
    return Task(name)


def _is_solver(text: object) -> bool:
    """Return whether a text names a solver, perhaps with settings."""
    found = split_text(text)
    return found is not None and found[0] in solver_names()


def _method(solver: str | Solver, settings: dict[str, Any]) -> Solver:
    """Return the solver with settings that were given as keywords."""
    if not settings:
        return parse_solver(solver)
    method = parse_solver(solver)
    own = [f.name for f in dataclasses.fields(method)]
    for name in settings:
        if name not in own:
            raise OptionError(
                f"Neither solve nor {method.name} has an option {name}; {choices(name, (*_ARGUMENTS, *sorted(own)))}"
            )
    return parse_solver(solver, settings)
