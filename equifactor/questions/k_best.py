"""The k best assignments: `k_best(graph, k, evidence) -> Ranking`."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.run_context import Progress, check_run
from equifactor.base.status import Status, Task
from equifactor.factors.lowered_graph import lower
from equifactor.graph import FactorGraph
from equifactor.graph.scores import assignment_log_scores
from equifactor.graph.structure import MAX_TABLE_ENTRIES
from equifactor.questions.distances import best_apart
from equifactor.questions.division import Division
from equifactor.questions.ranking import Ranking
from equifactor.solvers.auto.chooser import Auto
from equifactor.solvers.elimination.best_rows import ROUNDING, best_rows
from equifactor.solvers.elimination.exact import Exact
from equifactor.solvers.search.branch import Branch
from equifactor.solving.registry import parse_solver
from equifactor.solving.solver import SolveContext, Solver

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.reading.inputs import Evidence
    from equifactor.solvers.elimination.plan import Plan

# The rows from which assignments that are far apart are chosen, before constraints are solved. Chosen by hand.
_FIRST_ROWS = 2**12
PROVEN_GAP = 1e-6  # Scores within this relative distance of a bound count as proven: ten times the gap of `branch`.
_MOST_TIES = 1000  # Most assignments beyond k that are kept to count ties. Chosen by hand.


def k_best(
    graph: FactorGraph,
    k: int,
    *,
    evidence: Evidence | None = None,
    apart: int = 1,
    solver: str | Solver = "auto",
    time_limit: float | None = None,
    seed: int = 0,
    progress: Progress | bool = False,
) -> Ranking:
    """Return the k assignments with the highest scores, in order, each with its score and its probability.

    If an elimination plan fits in memory, one pass of maxima gives all of them: k = 100 takes about as long as k = 1.
    Otherwise the assignments are divided: the best one, and for every variable those that agree with it before this
    variable and differ there. Each part is solved by branch and bound, so that the list has a proof.

    Args:
        graph: the model, with factors of any kind.
        k: the number of assignments. The list is shorter if fewer are possible.
        evidence: states or weights by variable, as `FactorGraph.condition` takes them.
        apart: every assignment differs in at least this many variables from each better one in the list. Each is then
            the best one given those before it, which need not be the best set.
        solver: "auto"; "exact", which needs a plan that fits; or a MAP solver for the parts, such as "branch".
        time_limit: seconds, after which the list so far is returned with status `time-limit`.
        seed: for solvers that draw random numbers.
        progress: True for a bar on stderr, or a callable `(done, total, note)`.

    Examples:
        >>> import equifactor as ef
        >>> graph = ef.FactorGraph({"rain": ["no", "yes"], "grass": ["dry", "wet"]}, [
        ...     (["rain"], [0.8, 0.2]),
        ...     (["rain", "grass"], [[0.9, 0.1], [0.05, 0.95]]),
        ... ])
        >>> best = ef.k_best(graph, 2)
        >>> best[1], best.probabilities.round(2).tolist()
        ({'rain': 'yes', 'grass': 'wet'}, [0.72, 0.19])
    """
    from equifactor.base.progress import bar

    if not isinstance(graph, FactorGraph):
        raise ModelError(f"k_best takes one FactorGraph, found {brief(graph)}.")
    for name, value in (("k", k), ("apart", apart)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise OptionError(f"{name} must be a whole number of at least 1, found {brief(value)}.")
    if k * graph.num_vars > MAX_TABLE_ENTRIES:
        raise OptionError(f"{brief(k)} assignments of {graph.num_vars:,} variables cannot be addressed. Ask for fewer.")
    method = parse_solver(solver)
    method.check_task(Task.MAP)
    check_run(time_limit, seed, progress)
    if evidence is not None:
        graph = graph.condition(evidence)
    clock = Clock(time_limit)
    with bar(progress, "k best", time_limit) as report, clock.govern():
        context = SolveContext(clock=clock, seed=seed, progress=report)
        try:
            ranking = _ranked(graph, int(k), int(apart), method, context)
        except MemoryError:
            raise OptionError(
                f"{k:,} assignments of {graph.num_vars:,} variables need too much memory. Ask for fewer."
            ) from None
    return replace(ranking, seconds=clock.seconds)


def _ranked(graph: FactorGraph, k: int, apart: int, method: Solver, context: SolveContext) -> Ranking:
    """Return the list by elimination if a plan fits and the method allows it, otherwise by division."""
    if isinstance(method, (Auto, Exact)):
        lowered = lower(graph, "max").graph
        exact = Exact(memory_limit=method.memory_limit)
        steps = exact.plan(lowered, Task.MAR, context)
        steps = replace(steps, reduced=steps.reduced.applied_to(lowered))
        if steps.impossible:
            return none_of(graph, Status.ZERO_PROBABILITY, method)
        fits = steps.fits(method.memory_limit, Task.MAR)
        if fits and steps.seconds(Task.MAP) <= context.clock.left:
            found = _by_elimination(graph, k if apart == 1 else max(k, _FIRST_ROWS), steps, context)
            if found is None:
                return none_of(graph, context.clock.status, method)
            return found if apart == 1 else _spread(found, k, apart, method, context)
        if isinstance(method, Exact):
            why = "Raise the time limit." if fits else steps.excess(method.memory_limit, Task.MAR)
            return none_of(graph, Status.TIME_LIMIT if fits else Status.TOO_LARGE, method, why)
        method = Branch()
    if apart > 1:
        return _spread(none_of(graph, Status.OPTIMAL, method), k, apart, method, context)
    return _by_division(graph, k, method, context)


def _by_elimination(graph: FactorGraph, k: int, steps: Plan, context: SolveContext) -> Ranking | None:
    """Return the list from one upward pass; None when the clock stopped it."""
    wanted = k
    while True:
        rows = best_rows(steps, wanted, max(_MOST_TIES, wanted), context.clock)
        if rows is None:
            return None
        states = rows.states[:, : graph.num_vars]
        if states.shape[1] < rows.states.shape[1]:
            # Auxiliary variables of a structured factor may have several states in one assignment of the model.
            states = states[np.sort(np.unique(states, axis=0, return_index=True)[1])]
        if len(states) >= k or len(rows.states) < wanted:
            break
        wanted *= 2
    states, scores = in_order(graph, states)
    if not len(states):
        return none_of(graph, Status.ZERO_PROBABILITY, Exact())
    last = scores[min(k, len(scores)) - 1]
    ties = int((scores[k:] >= last - ROUNDING * max(1.0, abs(last))).sum())
    counted = rows.complete and len(states) == len(rows.states)
    return Ranking(
        graph=graph, states=states[:k], log_scores=scores[:k], status=Status.OPTIMAL, solver="exact",
        proven=min(k, len(states)), ties=ties, ties_counted=counted,
    )  # fmt: skip


def _by_division(graph: FactorGraph, k: int, method: Solver, context: SolveContext) -> Ranking:
    """Return the list from the division of the space into parts."""
    division = Division(graph, method, context)
    found: list[IntArray] = []
    bounds: list[float] = []  # on the scores of all assignments that had not been found after each one
    while len(found) < k and (states := division.next_best()) is not None:
        found.append(states)
        bounds.append(division.upper_bound)
    if not found:
        impossible = division.upper_bound == -math.inf
        return none_of(graph, Status.ZERO_PROBABILITY if impossible else division.status, method)
    states, scores = in_order(graph, np.array(found))
    # A solver proves a score up to a relative gap.
    enough = scores + PROVEN_GAP * np.maximum(1.0, np.abs(scores)) >= np.array(bounds)
    proven = int(np.argmin(enough)) if not enough.all() else len(scores)
    if len(found) < k and division.upper_bound > -math.inf:
        proven = min(proven, len(found) - 1)
    status = Status.OPTIMAL if proven == len(found) else division.status or Status.ITERATION_LIMIT
    message = "" if proven == len(found) else f"Other assignments may score up to {division.upper_bound:.6g}."
    return Ranking(
        graph=graph, states=states, log_scores=scores, status=status, solver=f"division, {method}", proven=proven,
        message=message,
    )  # fmt: skip


def _spread(known: Ranking, k: int, apart: int, method: Solver, context: SolveContext) -> Ranking:
    """Return assignments that differ in `apart` variables from each better one, from a list of the best ones.

    After the list has ended, each is the MAP of the graph with one more constraint for every assignment before it.
    """
    graph = known.graph
    rows: list[IntArray] = []
    for states in known.states:
        if len(rows) < k and all(np.count_nonzero(states != other) >= apart for other in rows):
            rows.append(states)
    status, proven, message = Status.OPTIMAL, len(rows), ""
    exhausted = 0 < len(known) < _FIRST_ROWS and known.ties_counted
    while len(rows) < k and not exhausted:
        found = best_apart(graph, rows, apart, method, context)
        if found is None or found.status is Status.ZERO_PROBABILITY:
            break
        status = found.status if status is Status.OPTIMAL else status
        if found.assignment is None:
            message = f"The search for the next one ended with: {found.message or found.status.advice}"
            break
        rows.append(found.assignment[: graph.num_vars])
        proven += proven == len(rows) - 1 and found.status is Status.OPTIMAL
    if not rows:
        return none_of(graph, Status.ZERO_PROBABILITY if status is Status.OPTIMAL else status, method, message)
    if status is not Status.OPTIMAL and proven == len(rows):
        proven -= 1  # The list may lack an assignment.
    states = np.array(rows)
    return Ranking(
        graph=graph, states=states, log_scores=assignment_log_scores(graph, states), status=status,
        solver=str(method) if len(rows) > len(known) else known.solver, proven=proven, apart=apart, message=message,
    )  # fmt: skip


def in_order(graph: FactorGraph, states: IntArray) -> tuple[IntArray, FloatArray]:
    """Return assignments [n, V] and their scores [n] with the best first, in the order given among equal scores."""
    scores = assignment_log_scores(graph, states) if len(states) else np.zeros(0)
    order = np.argsort(-scores, kind="stable")
    return np.ascontiguousarray(states[order]), scores[order]


def none_of(graph: FactorGraph, status: Status | None, method: Solver, message: str = "") -> Ranking:
    """Return an empty list."""
    return Ranking(
        graph=graph, states=np.zeros((0, graph.num_vars), np.int64), log_scores=np.zeros(0),
        status=status or Status.TIME_LIMIT, solver=str(method), proven=0, message=message,
    )  # fmt: skip
