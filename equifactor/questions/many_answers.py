"""Many sets of evidence on one graph, answered together: `solve(graph, evidence=[..]) -> ManyResults`."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from equifactor.base.budget import planning_work
from equifactor.base.clock import Clock, NotCompiledError
from equifactor.base.errors import ModelError, SolveError, brief
from equifactor.base.progress import bar
from equifactor.base.status import Status, Task
from equifactor.graph import FactorGraph
from equifactor.graph.reading.inputs import as_list
from equifactor.graph.reading.observations import StateNumbers
from equifactor.graph.reading.state_rows import sets_of, states_of_sets
from equifactor.graph.scores import batch_log_scores
from equifactor.kernels.pointers import picked
from equifactor.kernels.readiness import plain_is_better, uses_kernels
from equifactor.questions.many_results import ManyResults, MarginalColumns
from equifactor.solvers.elimination.plan import plan
from equifactor.solving.estimate import Estimate
from equifactor.solving.running import estimates_of, is_large
from equifactor.solving.solver import Progress, SolveContext, Solver

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.reading.inputs import Variable
    from equifactor.questions.circuit_answers import CircuitRows
    from equifactor.questions.solve_settings import SolveSettings
    from equifactor.solvers.elimination.evidence_rows import EvidenceRows

_ROWS = 2**14  # Rows along one plan between two reports of progress. Chosen by hand.
_GRAPHS = 16  # Graphs solved one by one between two reports of progress. Chosen by hand.
_CHEAP = 2.0**18  # A plan with at most this many entries serves all rows. Chosen by hand.
_SAVED = 8.0  # A larger plan serves all rows unless evidence makes it smaller by this factor. Chosen by hand.


def solve_sets(
    graph: FactorGraph,
    evidence: Any,
    targets: Sequence[Variable] | None,
    task: Task,
    how: SolveSettings,
    progress: Progress | bool,
    threads: int | None,
) -> ManyResults:
    """Return the answers of `solve` to many sets of evidence on one graph; see there for the arguments.

    If exact inference on the graph without evidence fits the memory limit, the graph is summed out once. Then sixteen
    sets at a time cost only what their evidence changes. Otherwise every set is a graph of its own for the solver.
    """
    clock = Clock(how.time_limit)
    method = how.method()
    asked = target_numbers(graph, targets)
    sets = sets_of(evidence)
    states = states_of_sets(graph.structure, sets)
    if states is not None:
        _check_agreement(graph, states)
    answers = Answers(graph, asked, len(sets), task)
    with bar(progress, "evidence sets", how.time_limit) as report, clock.govern():
        context = SolveContext(
            clock=clock, seed=how.seed, device=how.device, dtype=how.dtype, threads=threads, progress=report
        )
        with contextlib.suppress(NotCompiledError):  # The sets without an answer have the status of the time limit.
            rows = None if states is None or task is Task.MAP else _one_plan(graph, states, method, context)
            if rows is not None:
                answers.find_by_rows(rows, cast("IntArray", states), context)
            else:
                each = sets if states is None else [_numbered(row) for row in states]
                answers.find_one_by_one(method, each, context)
        unreached = clock.status or Status.TIME_LIMIT
    return answers.results(str(method), unreached, clock.seconds)


class Answers:
    """The answers while they are found: arrays with a row for every set."""

    def __init__(self, graph: FactorGraph, asked: IntArray, count: int, task: Task) -> None:
        self.graph, self.task = graph, task
        self.asked = asked if task is Task.MAR else asked[:0]
        self.ptr, self._columns = picked(graph.structure.state_ptr, self.asked)
        self.p = np.zeros((count, int(self.ptr[-1])))
        self.log_z = np.full(count, -np.inf)
        self.statuses: list[Status | None] = [None] * count
        self.assignments = np.full((count, graph.num_vars), -1) if task is Task.MAP else None
        self.log_scores = np.full(count, -np.inf) if task is Task.MAP else None

    def results(self, solver: str, unreached: Status, seconds: float) -> ManyResults:
        """Return the answers; sets that were not reached get the status `unreached`."""
        statuses = tuple(status or unreached for status in self.statuses)
        return ManyResults(
            graph=self.graph, task=self.task, solver=solver, statuses=statuses,
            marginals=MarginalColumns(self.graph, self.asked, self.p, self.ptr) if self.task is Task.MAR else None,
            log_z=None if self.task is Task.MAP else self.log_z,
            assignments=self.assignments, log_scores=self.log_scores,
            message=_message(statuses), seconds=seconds,
        )  # fmt: skip

    def find_by_rows(self, rows: EvidenceRows | CircuitRows, states: IntArray, context: SolveContext) -> None:
        """Answer all sets along one plan."""
        for first in range(0, len(states), _ROWS):
            p, log_z = rows.marginals(states[first : first + _ROWS], self.asked, clock=context.clock)
            done = slice(first, first + len(p))
            self.p[done], self.log_z[done] = p, log_z
            possible = np.isfinite(log_z)
            self.statuses[done] = [Status.EXACT if ok else Status.ZERO_PROBABILITY for ok in possible.tolist()]
            context.report(done.stop, len(states))
            if context.clock.stopped:
                return

    def find_one_by_one(self, method: Solver, sets: Sequence[Any], context: SolveContext) -> None:
        """Answer every set as a graph of its own, a few at a time, each with its share of the time that is left."""
        size = 1 if is_large(self.graph) else _GRAPHS
        for first in range(0, len(sets), size):
            if context.clock.stopped:
                return
            graphs = [self.graph.condition(e) for e in sets[first : first + size]]
            part = replace(context, clock=context.clock.part(len(graphs) / (len(sets) - first)), progress=None)
            for n, found in enumerate(estimates_of(method, graphs, self.task, part)):
                self.statuses[first + n] = self._take(first + n, graphs[n], found)
            context.report(first + len(graphs), len(sets))

    def _take(self, n: int, graph: FactorGraph, found: Estimate) -> Status:
        """Keep what a solver reports about set n, and return its status. NaN is never kept."""
        if self.assignments is not None and self.log_scores is not None:
            if found.assignment is not None:
                self.assignments[n] = found.assignment
                self.log_scores[n] = batch_log_scores([graph], [found.assignment])[0]
            return found.status
        p = None if found.marginals is None else found.marginals.values[self._columns]
        log_z = -np.inf if found.log_z is None else found.log_z
        if np.isnan(log_z) or (p is not None and not np.isfinite(p).all()):
            return Status.NON_FINITE
        self.log_z[n] = log_z
        if p is not None:
            self.p[n] = p
        return found.status


def target_numbers(graph: FactorGraph, targets: Sequence[Variable] | None) -> IntArray:
    """Return the numbers of the variables that are asked for."""
    if targets is None:
        return np.arange(graph.num_vars)
    names = None if isinstance(targets, str) else as_list(targets)
    if names is None:
        such = targets if isinstance(targets, str) else "rain"
        raise ModelError(f'Targets must be a list of variables, such as ["{such}"]; found {brief(targets)}.')
    found = [graph.variable(target) for target in names]
    if len(set(found)) < len(found):
        twice = next(i for i in found if found.count(i) > 1)
        raise ModelError(f"Targets name variable {graph.structure.variable_name(twice)} twice. Give it once.")
    return np.array(found, np.int64)


def _check_agreement(graph: FactorGraph, states: IntArray) -> None:
    """Raise `ModelError` for evidence that contradicts the evidence of the graph, as `FactorGraph.condition` does."""
    if graph.observed is None:
        return
    against = (graph.observed >= 0) & (states >= 0) & (states != graph.observed)
    if against.any():
        b, i = np.argwhere(against)[0].tolist()
        own = graph.structure.states_of(i)
        raise ModelError(
            f"evidence set {b}: variable {graph.structure.variable_name(i)} is already observed in state "
            f"{own[graph.observed[i]]}, not {own[states[b, i]]}.",
            variable=i,
        )


def _one_plan(graph: FactorGraph, states: IntArray, method: Solver, context: SolveContext) -> EvidenceRows | None:
    """Return the graph prepared for all sets along one plan; None if it does not fit or single sets are cheaper."""
    from equifactor.solvers.auto.chooser import Auto
    from equifactor.solvers.elimination.evidence_rows import EvidenceRows
    from equifactor.solvers.elimination.exact import Exact

    if not isinstance(method, (Auto, Exact)) or not len(states) or _is_plain(graph, states, method.memory_limit):
        return None
    try:
        rows = EvidenceRows(graph, method.memory_limit, clock=context.clock, threads=context.threads)
    except SolveError:
        return None
    if rows.plan.entries > _CHEAP:
        most_work = planning_work(context.clock.left)
        alone = plan(graph.condition(_numbered(states[0])), memory_limit=method.memory_limit, most_work=most_work)
        if alone.entries * _SAVED < rows.plan.entries:
            return None
    return rows


def _is_plain(graph: FactorGraph, states: IntArray, memory_limit: float) -> bool:
    """Return whether all sets, one by one in plain NumPy, are answered before the kernels for rows are ready."""
    from equifactor.solvers.elimination.plain_orders import plain_order_seconds

    if uses_kernels("elimination") or is_large(graph):
        return False
    alone = plan(graph.condition(_numbered(states[0])), memory_limit=memory_limit)
    planning = plain_order_seconds(alone.reduced.graph.structure)
    seconds = len(states) * (planning + alone.plain_seconds())
    return alone.fits(memory_limit) and plain_is_better(seconds, 0.0, "elimination", count=False)


def _numbered(row: IntArray) -> StateNumbers:
    """Return one row of states as evidence."""
    seen = np.flatnonzero(row >= 0)
    return StateNumbers(zip(seen.tolist(), row[seen].tolist(), strict=True))


def _message(statuses: Sequence[Status]) -> str:
    """Return how many sets were not solved and why; empty if all were solved."""
    counts = Counter(status for status in statuses if not status.solved)
    return " ".join(f"{count:,} of {len(statuses):,} sets: {status.advice}" for status, count in counts.items())
