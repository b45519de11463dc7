"""One run of a solver on any graphs: structured factors are lowered and impossible states removed before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.clock import NotCompiledError
from equifactor.base.status import Status, Task
from equifactor.factors.lowered_graph import lower_all
from equifactor.graph import FactorGraph
from equifactor.graph.reduction import without_impossible_states
from equifactor.graph.repeated_graph import any_zeros
from equifactor.kernels import compile_costs  # noqa: F401 - it lets imports of Numba look at the clock
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.solver import SolveContext, Solver

if TYPE_CHECKING:
    from equifactor.base.typing import Semiring

NO_TIME_FOR_TABLES = "There was no time to write structured factors as dense tables. Raise the time limit or use bp."
_LARGE = 2**18  # Edges and table entries from which graphs gain nothing from a batch. Chosen by hand.
_OWN = f"{__name__.partition('.')[0]}."  # The names of the modules of this package begin with this text.


def estimates_of(method: Solver, graphs: list[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate]:
    """Run the method on all graphs except those that inspection proves impossible; return one estimate per graph.

    A method gets dense tables in place of the factors that it does not take as they are.
    """
    if len(graphs) > 1 and context.clock.time_limit is not None and all(map(is_large, graphs)):
        return _one_by_one(method, graphs, task, context)
    structures = {id(graph.structure): graph for graph in graphs}  # Whole batches often share one.
    if not all(map(method.takes_kinds_of, structures.values())):
        semiring: Semiring = "max" if task is Task.MAP else "sum"
        lowered = lower_all(graphs, semiring, keep_compiled=method.any_kind, clock=context.clock)
        found = estimates_of(method, [g.graph for g in lowered], task, context)
        late = [_late(context, NO_TIME_FOR_TABLES) for _ in graphs[len(lowered) :]]
        return [g.estimate(e) for g, e in zip(lowered, found, strict=True)] + late
    # A batch is better off without impossible states: its graphs share the smaller structure.
    if not graphs or (method.finds_zeros and len(graphs) == 1) or _is_plain(graphs, structures.values()):
        return _run(method, graphs, task, context) if graphs else []
    reduced = without_impossible_states(graphs)
    possible = [r for r in reduced if r is not None]
    answers = iter(_run(method, [r.graph for r in possible], task, context) if possible else ())
    return [impossible() if r is None else r.estimate(next(answers)) for r in reduced]


def is_large(graph: FactorGraph) -> bool:
    """Return whether a graph is so large that preparing a batch of such graphs would take longer than short limits."""
    return graph.structure.num_edges + graph.structure.num_entries >= _LARGE


def _one_by_one(method: Solver, graphs: list[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
    """Return the estimates of graphs that get equal shares of the time left one after the other."""
    answers: list[Estimate] = []
    for n, graph in enumerate(graphs):
        if n and context.clock.stopped:
            return answers + [_late(context, "") for _ in graphs[n:]]
        part = replace(context, clock=context.clock.part(1 / (len(graphs) - n)), progress=None)
        answers += estimates_of(method, [graph], task, part)
        context.report(n + 1, len(graphs))
    return answers


def _run(method: Solver, graphs: list[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate]:
    """Return one estimate per graph; what a solver from outside this package returns is checked."""
    try:
        found = method.run(graphs, task, context)
    except NotCompiledError as error:
        return [without_kernels(error, context) for _ in graphs]
    if type(method).__module__.startswith(_OWN):
        return found
    from equifactor.solving.foreign_answers import checked_answers

    return checked_answers(method, graphs, found)


def without_kernels(error: NotCompiledError, context: SolveContext) -> Estimate:
    """Return the estimate of a run that could not compile its kernels in time, or was interrupted before."""
    return _late(context, str(error))


def _late(context: SolveContext, why: str) -> Estimate:
    """Return the estimate of a run that was not begun, because of the time limit or Ctrl-C."""
    if context.clock.status is Status.INTERRUPTED:
        return Estimate(status=Status.INTERRUPTED)
    return Estimate(status=Status.TIME_LIMIT, message=why)


def _is_plain(graphs: list[FactorGraph], structures: Iterable[FactorGraph]) -> bool:
    """Return whether no graph has a zero or a variable with one state: then there is nothing to simplify.

    Args:
        graphs: all graphs.
        structures: one graph for each structure among them.
    """
    if np.any(np.concatenate([g.structure.card for g in structures]) == 1):
        return False
    return not any_zeros(graphs)
