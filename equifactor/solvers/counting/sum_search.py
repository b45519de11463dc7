"""Exact sums by search: the solver `search-sum`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.budget import FLOAT_BYTES, GIB, Budget, Seconds
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph.reduction import to_free_part
from equifactor.solvers.counting.formula import formula_of
from equifactor.solvers.counting.search_order import search_order
from equifactor.solvers.counting.simplify import simplified
from equifactor.solvers.elimination.exact import Exact
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solvers.elimination.pruning import is_prunable, pruned, pruning_seconds
from equifactor.solving.estimate import Estimate, impossible
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.graph import FactorGraph
    from equifactor.graph.marginals import Marginals
    from equifactor.graph.reduction import ReducedGraph
    from equifactor.solvers.counting.formula import WeightedFormula
    from equifactor.solvers.counting.search_state import SumSearch

_PLANNING = 1.0  # Reference seconds for the order of the variables without a deadline. Chosen by hand.
_SIMPLIFY_SHARE = 0.5  # The share of the time left for a smaller formula.
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

    width: int = option(10_000, "give up at once if the elimination order of the formula is wider", low=0)

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
        free = reduced.graph
        if task is Task.PR and is_prunable(free) and Budget(clock).ends_in_time(pruning_seconds(free)):
            free = pruned(free).graph
        formula = formula_of(free, clock)
        if formula is None:
            return Estimate(
                status=clock.status or Status.TOO_LARGE,
                message="As a formula the model would have too many clauses for the time. Use exact, or bp.",
            )
        if not clock.stopped:
            formula = simplified(formula, clock.part(_SIMPLIFY_SHARE), eliminate=task is Task.PR)
        if clock.stopped:
            return Estimate(status=clock.status or Status.TIME_LIMIT)
        run = _SumRun(formula, task, context, self.memory_limit)
        if run.order.width is not None and run.order.width > self.width:
            return Estimate(
                status=Status.TOO_LARGE,
                message=f"The formula has an elimination order of width {run.order.width}. Raise width, or use auto.",
                stats=run.stats,
            )
        estimate = run.estimate()
        if estimate.log_z == -np.inf:
            return zero_by_exclusion(graph)
        if task is Task.MAR and run.shares is not None:
            estimate = replace(estimate, marginals=_marginals(run.shares[formula.state_literal], reduced))
        return replace(estimate, stats=run.stats)


class _SumRun:
    """The search for the sum of one formula, or its elimination where the search takes longer than that.

    Args:
        formula: the formula, simplified.
        task: MAR or PR.
        context: the clock of the call.
        memory_limit: GiB.
    """

    def __init__(self, formula: WeightedFormula, task: Task, context: SolveContext, memory_limit: float) -> None:
        from equifactor.solvers.counting.search_state import SumSearch

        self.formula, self.task, self.context, self.memory_limit = formula, task, context, memory_limit
        self.budget = Budget(context.clock, seconds=_PLANNING / _PLANNING_SHARE)
        long = [clause for clause in formula.clauses if len(clause) > 1]
        seconds = min(_PLANNING, _PLANNING_SHARE * self.budget.left)
        self.order = search_order(formula.num_vars, long, seconds)
        self.search = SumSearch(formula, self.order.priority, record=task is Task.MAR, memory=memory_limit * GIB)
        self.shares: FloatArray | None = None  # [2n] the probability of each literal

    @property
    def stats(self) -> dict[str, Any]:
        """Facts about the run."""
        return {**self.search.stats, "width": self.order.width}

    def estimate(self) -> Estimate:
        """Run until the sum is known or the clock stops; return the sum, or bounds on it."""
        clock, search = self.context.clock, self.search
        trial = self._elimination_seconds()
        began = clock.seconds
        while not search.done and not clock.stopped and not search.is_full:
            if clock.seconds - began > trial:
                trial = np.inf
                if (found := self._eliminated()) is not None:
                    return found
            search.work()
            self.context.report(search.stats["decisions"], None, f"{search.stats['cache_entries']:,} cached sums")
        if search.done and search.log_sum > -np.inf and self.task is Task.MAR:
            self.shares = search.circuit().log_sum_and_shares()[1]
        return _estimate(search, self.context)

    def _elimination_seconds(self) -> float:
        """Return how long an elimination of the formula should take; infinity if it does not fit."""
        entry = Seconds.UP_AND_DOWN if self.task is Task.MAR else Seconds.UP
        if self.order.width is None or 2.0 ** (self.order.width + 4) * FLOAT_BYTES > self.memory_limit * GIB:
            return np.inf
        seconds = self.budget.time_for(self.order.entries * entry)
        return seconds if 2.0 * seconds < self.context.clock.left else np.inf

    def _eliminated(self) -> Estimate | None:
        """Return the answer of an elimination of the formula; None if that is not possible."""
        tables = self.formula.as_tables()
        if tables is None:
            return None
        found = Exact(memory_limit=self.memory_limit).run_one(tables, self.task, self.context)
        if found.log_z is None or found.status is not Status.EXACT:
            return None
        if found.marginals is not None:
            self.shares = found.marginals.values.reshape(-1, 2)[:, ::-1].ravel()
        log_z = found.log_z + self.formula.constant
        return replace(found, log_z=log_z, lower_bound=log_z, upper_bound=log_z, marginals=None)


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


def _marginals(p: FloatArray, reduced: ReducedGraph) -> Marginals:
    """Return the marginals of the original's variables from the probability [x] of each state that is left."""
    ptr = reduced.graph.structure.state_ptr
    if len(p):
        p = p / np.repeat(np.add.reduceat(p, ptr[:-1]), np.diff(ptr))
    return reduced.marginals(p)
