"""Exact sums by search: the solver `search-sum`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.budget import GIB, Budget
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.reduction import to_free_part
from equifactor.solvers.counting.formula import formula_of
from equifactor.solvers.counting.search_order import priorities
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.graph.reduction import ReducedGraph
    from equifactor.solvers.counting.formula import WeightedFormula
    from equifactor.solvers.counting.search_state import SumSearch

_PLANNING = 1.0  # Reference seconds for the order of the variables without a deadline. Chosen by hand.
_PLANNING_SHARE = 0.1  # The share of the time left that it may take.


@register("search-sum")
@dataclass(frozen=True, kw_only=True)
class SearchSum(GraphSolver):
    """Exact sums by search: zeros propagate, equal entries count once, and sums of components are cached.

    The graph becomes a weighted formula. A search decides its variables one after the other, as model counters do
    [Sang04]. It pays where tables are full of zeros or equal entries, whatever the width of the graph.
    """

    tasks = (Task.MAR, Task.PR)
    exact_on = "all"
    symmetries = frozenset()  # ties between variables are broken by their numbers
    finds_zeros = True

    memory_limit: float = option(1.0, "GiB for cached sums and, for marginals, the circuit of the search", low=0.0)

    @classmethod
    def takes_kinds_of(cls, graph: FactorGraph) -> bool:
        """Return True: clauses stay as they are, and the formula is made of small tables for the others."""
        return True

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Return the exact sums, or bounds on ln Z if the clock or the memory ends the search."""
        clock = context.clock
        if clock.stopped:
            return Estimate(status=clock.status or Status.TIME_LIMIT)
        reduced = to_free_part(graph)
        if reduced is None:
            return impossible()
        formula = formula_of(reduced.graph)
        if formula is None:
            return Estimate(
                status=Status.TOO_LARGE,
                message="As a formula the model would have millions of clauses. Use exact, or bp.",
            )
        search, width = begin_search(formula, task, context, self.memory_limit * GIB)
        while not search.done and not clock.stopped and not search.is_full:
            search.work()
            context.report(search.stats["decisions"], None, f"{search.stats['cache_entries']:,} cached sums")
        estimate = _estimate(search, context)
        if search.done and np.isneginf(search.log_sum):
            return zero_by_exclusion(graph)
        if estimate.status is Status.EXACT and task is Task.MAR:
            estimate = replace(estimate, marginals=_marginals(search, reduced))
        return replace(estimate, stats={**search.stats, "width": width})


def begin_search(
    formula: WeightedFormula, task: Task, context: SolveContext, memory: float
) -> tuple[SumSearch, int | None]:
    """Return a search for the sum of a formula, and the width of the elimination order that guides it."""
    from equifactor.solvers.counting.search_state import SumSearch

    budget = Budget(context.clock, seconds=_PLANNING / _PLANNING_SHARE)
    seconds = min(_PLANNING, _PLANNING_SHARE * budget.left)
    long = [clause for clause in formula.clauses if len(clause) > 1]
    order, width = priorities(formula.num_vars, long, seconds)
    return SumSearch(formula, order, record=task is Task.MAR, memory=memory), width


def _estimate(search: SumSearch, context: SolveContext) -> Estimate:
    """Return ln Z, or what the search knows about it."""
    low, high = search.bounds()
    known: dict[str, Any] = {"lower_bound": low, "upper_bound": high, "iterations": search.stats["decisions"]}
    if search.done:
        return Estimate(status=Status.EXACT, log_z=search.log_sum, **known)
    if search.is_full:
        return Estimate(
            status=Status.TOO_LARGE, message="The circuit of the search is full. Raise memory_limit.", **known
        )
    return Estimate(status=context.clock.status or Status.TIME_LIMIT, **known)


def _marginals(search: SumSearch, reduced: ReducedGraph) -> Any:
    """Return the marginals of the original's variables."""
    p = search.circuit().log_sum_and_shares()[1][search.formula.state_literal]
    ptr = reduced.graph.structure.state_ptr
    if len(p):
        p /= np.repeat(np.add.reduceat(p, ptr[:-1]), np.diff(ptr))
    return reduced.marginals(p)
