"""One run of a solver on any graphs: structured factors are lowered and impossible states removed before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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

_OWN = f"{__name__.partition('.')[0]}."  # The names of the modules of this package begin with this text.


def estimates_of(method: Solver, graphs: list[FactorGraph], task: Task, context: SolveContext) -> Sequence[Estimate]:
    """Run the method on all graphs except those that inspection proves impossible; return one estimate per graph.

    A method gets dense tables in place of the factors that it does not take as they are.
    """
    structures = {id(graph.structure): graph for graph in graphs}  # Whole batches often share one.
    if not all(map(method.takes_kinds_of, structures.values())):
        lowered = lower_all(graphs, "max" if task is Task.MAP else "sum", keep_compiled=method.any_kind)
        found = estimates_of(method, [g.graph for g in lowered], task, context)
        return [g.estimate(e) for g, e in zip(lowered, found, strict=True)]
    # A batch is better off without impossible states: its graphs share the smaller structure.
    if not graphs or (method.finds_zeros and len(graphs) == 1) or _is_plain(graphs, structures.values()):
        return _run(method, graphs, task, context) if graphs else []
    reduced = without_impossible_states(graphs)
    possible = [r for r in reduced if r is not None]
    answers = iter(_run(method, [r.graph for r in possible], task, context) if possible else ())
    return [impossible() if r is None else r.estimate(next(answers)) for r in reduced]


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
    if context.clock.interrupted:
        return Estimate(status=Status.INTERRUPTED)
    return Estimate(status=Status.TIME_LIMIT, message=str(error))


def _is_plain(graphs: list[FactorGraph], structures: Iterable[FactorGraph]) -> bool:
    """Return whether no graph has a zero or a variable with one state: then there is nothing to simplify.

    Args:
        graphs: all graphs.
        structures: one graph for each structure among them.
    """
    if np.any(np.concatenate([g.structure.card for g in structures]) == 1):
        return False
    return not any_zeros(graphs)
