"""Many questions on one model: `solve_many(graph, evidence_sets, targets) -> ManyResults`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError, SolveError, brief
from equifactor.base.run_context import check_run
from equifactor.base.status import Status, Task
from equifactor.graph import FactorGraph
from equifactor.graph.reading.evidence_sets import sets_of, states_of_sets
from equifactor.graph.reading.observations import StateNumbers
from equifactor.kernels.pointers import picked
from equifactor.questions.many_results import ManyResults, MarginalColumns
from equifactor.solvers.elimination.plan import plan
from equifactor.solving.estimate import Estimate
from equifactor.solving.registry import parse_solver
from equifactor.solving.running import estimates_of
from equifactor.solving.solver import Progress, SolveContext, Solver

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.reading.inputs import Variable
    from equifactor.solvers.elimination.evidence_rows import EvidenceRows

_ROWS = 2**14  # So many rows along one plan lie between two reports of progress,
_GRAPHS = 16  # and so many graphs that are solved one by one.
_CHEAP = 2.0**18  # A plan with fewer entries is used for all rows without a look at what evidence would save,
_SAVED = 8.0  # and one with more, if the plan of the first row does not have this many times fewer.


def solve_many(
    graph: FactorGraph,
    evidence_sets: Any,
    targets: Sequence[Variable] | None = None,
    *,
    solver: str | Solver = "auto",
    time_limit: float | None = None,
    seed: int = 0,
    progress: Progress | bool = False,
) -> ManyResults:
    """Marginals and ln P(e) for many sets of evidence on one model: one plan and one structure serve all of them.

    Where the model is small enough for exact inference, it is summed out once, and sixteen sets at a time cost what
    their evidence changes: thousands of sets a second on networks of tens of variables, whichever variables each
    observes. Elsewhere every set is a graph of its own for the solver.

    Args:
        graph: the model.
        evidence_sets: a list of mappings from variable to state, as `FactorGraph.condition` takes them (weights too);
            a pandas frame with a column per variable, free where a value is missing; or whole numbers [B, V], -1
            where free.
        targets: the variables to answer for, by name or number; all of them by default.
        solver: as in `solve`; "auto" and "exact" share one plan.
        time_limit: seconds for all sets together; those that were not reached have status `time-limit`.
        seed: for solvers that draw random numbers.
        progress: True for a bar on stderr, or a callable `(done, total, note)`.

    Examples:
        >>> import equifactor as ef
        >>> graph = ef.FactorGraph({"rain": 2, "grass": ["dry", "wet"]}, [
        ...     (["rain"], [0.8, 0.2]),
        ...     (["rain", "grass"], [[0.9, 0.1], [0.05, 0.95]]),
        ... ])
        >>> answers = ef.solve_many(graph, [{"grass": "wet"}, {"grass": "dry"}, {}], ["rain"])
        >>> answers.marginals["rain"].round(3)
        array([[0.296, 0.704],
               [0.986, 0.014],
               [0.8  , 0.2  ]])
    """
    from equifactor.base.progress import bar

    if not isinstance(graph, FactorGraph):
        raise ModelError(f"solve_many takes one graph, found {brief(graph)}; `solve` takes several")
    method = parse_solver(solver)
    method.check_task(Task.MAR)
    check_run(time_limit, seed, progress)
    asked = _numbers(graph, targets)
    sets = sets_of(evidence_sets)
    states = states_of_sets(graph.structure, sets)
    if states is not None:
        _check_agreement(graph, states)
    room = _Room(graph, asked, len(sets))
    clock = Clock(time_limit)
    with clock.catch_interrupt(), bar(progress, "evidence sets", time_limit) as report:
        context = SolveContext(clock=clock, seed=seed, progress=report)
        rows = None if states is None else _one_plan(graph, states, method)
        if rows is not None:
            room.answer_by_rows(rows, cast("IntArray", states), context)
        else:
            each = sets if states is None else [_numbered(row) for row in states]
            room.answer_one_by_one(method, each, context)
        unreached = clock.status or Status.TIME_LIMIT
    statuses = tuple(status or unreached for status in room.statuses)
    return ManyResults(
        graph=graph, solver=str(method), statuses=statuses, marginals=MarginalColumns(graph, asked, room.p, room.ptr),
        log_z=room.log_z, message=_message(statuses), seconds=clock.seconds,
    )  # fmt: skip


class _Room:
    """The answers while they are found: arrays with a row for every set."""

    def __init__(self, graph: FactorGraph, asked: IntArray, count: int) -> None:
        self.graph, self.asked = graph, asked
        self.ptr, self._columns = picked(graph.structure.state_ptr, asked)
        self.p = np.zeros((count, int(self.ptr[-1])))
        self.log_z = np.full(count, -np.inf)
        self.statuses: list[Status | None] = [None] * count

    def answer_by_rows(self, rows: EvidenceRows, states: IntArray, context: SolveContext) -> None:
        """All sets along one plan."""
        for first in range(0, len(states), _ROWS):
            p, log_z = rows.marginals(states[first : first + _ROWS], self.asked, clock=context.clock)
            done = slice(first, first + len(p))
            self.p[done], self.log_z[done] = p, log_z
            possible = np.isfinite(log_z)
            self.statuses[done] = [Status.EXACT if ok else Status.ZERO_PROBABILITY for ok in possible.tolist()]
            context.report(done.stop, len(states))
            if context.clock.stopped:
                return

    def answer_one_by_one(self, method: Solver, sets: Sequence[Any], context: SolveContext) -> None:
        """Every set as a graph of its own, a few at a time, each with its share of the time that is left."""
        for first in range(0, len(sets), _GRAPHS):
            if context.clock.stopped:
                return
            graphs = [self.graph.condition(e) for e in sets[first : first + _GRAPHS]]
            brief_context = replace(context, clock=context.clock.part(len(graphs) / (len(sets) - first)), progress=None)
            for n, found in enumerate(estimates_of(method, graphs, Task.MAR, brief_context), start=first):
                self.statuses[n] = self._take(n, found)
            context.report(first + len(graphs), len(sets))

    def _take(self, n: int, found: Estimate) -> Status:
        """Keep what a solver says about set n. Numbers that are none are not handed on."""
        p = None if found.marginals is None else found.marginals.values[self._columns]
        log_z = -np.inf if found.log_z is None else found.log_z
        if np.isnan(log_z) or (p is not None and not np.isfinite(p).all()):
            return Status.NON_FINITE
        self.log_z[n] = log_z
        if p is not None:
            self.p[n] = p
        return found.status


def _numbers(graph: FactorGraph, targets: Sequence[Variable] | None) -> IntArray:
    """The variables asked for, by number."""
    if targets is None:
        return np.arange(graph.num_vars)
    if isinstance(targets, str) or not isinstance(targets, Iterable):
        raise ModelError(f'targets are a list of variables, such as ["{targets}"]; found {brief(targets)}')
    found = [graph.variable(target) for target in targets]
    if len(set(found)) < len(found):
        twice = next(i for i in found if found.count(i) > 1)
        raise ModelError(f"targets name variable {graph.structure.variable_name(twice)} twice; give it once")
    return np.array(found, np.int64)


def _check_agreement(graph: FactorGraph, states: IntArray) -> None:
    """Refuse evidence against what the graph itself has observed, as `FactorGraph.condition` does."""
    if graph.observed is None:
        return
    against = (graph.observed >= 0) & (states >= 0) & (states != graph.observed)
    if against.any():
        b, i = np.argwhere(against)[0].tolist()
        raise ModelError(
            f"evidence set {b}: variable {graph.structure.variable_name(i)} is already observed in state "
            f"{graph.observed[i]}, not {states[b, i]}",
            variable=i,
        )


def _one_plan(graph: FactorGraph, states: IntArray, method: Solver) -> EvidenceRows | None:
    """The model made ready for all sets along one plan; None where that does not fit, or each by itself is cheaper."""
    from equifactor.solvers.auto.chooser import Auto
    from equifactor.solvers.elimination.evidence_rows import EvidenceRows
    from equifactor.solvers.elimination.exact import Exact

    if not isinstance(method, (Auto, Exact)) or not len(states):
        return None
    try:
        rows = EvidenceRows(graph, method.memory_limit)
    except SolveError:
        return None
    if rows.plan.entries > _CHEAP:
        alone = plan(graph.condition(_numbered(states[0])), memory_limit=method.memory_limit)
        if alone.entries * _SAVED < rows.plan.entries:
            return None
    return rows


def _numbered(row: IntArray) -> StateNumbers:
    """One row of states as evidence."""
    seen = np.flatnonzero(row >= 0)
    return StateNumbers(zip(seen.tolist(), row[seen].tolist(), strict=True))


def _message(statuses: Sequence[Status]) -> str:
    """A sentence about the sets without an answer of the promised quality; empty where there are none."""
    counts = Counter(status for status in statuses if not status.solved)
    return " ".join(f"{count:,} of {len(statuses):,} sets: {status.advice}" for status, count in counts.items())
