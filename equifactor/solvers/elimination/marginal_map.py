"""Marginal MAP by constrained elimination: sums first, as far as tables stay small, and then a MAP of the rest.

A MAP over the graph that is left has the scores of the original: the log of the sum over all variables that are not in
the query. If every sum fits, an optimal MAP is an optimal marginal MAP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph.reduction import ReducedGraph, to_free_part
from equifactor.solvers.elimination.partial_sums import SumPlan, cheap_sums, plan_sums, sum_out_part

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.solving.estimate import Estimate


@dataclass(frozen=True, eq=False)
class QueryProblem:
    """A marginal MAP after evidence, impossible states and cheap sums have left the graph."""

    reduced: ReducedGraph  # the free part of the model
    steps: SumPlan  # the sums that have been made
    graph: FactorGraph  # the graph that is left, over query variables and variables that could not be summed out
    variables: IntArray  # [k] the numbers of its variables in the free part
    is_query: BoolArray  # [k]

    @property
    def is_map(self) -> bool:
        """Whether all sums have been made, so that a MAP is left."""
        return bool(self.is_query.all())

    def assignment(self, states: IntArray) -> IntArray:
        """Return [V] an assignment of the model with the states [k] of the query; other variables are in any state."""
        whole = np.zeros(self.reduced.graph.num_vars, np.int64)
        whole[self.variables] = states
        return self.reduced.assignment(whole)

    def estimate(self, found: Estimate) -> Estimate:
        """Return the marginal MAP from the MAP of the graph that is left, if all sums have been made."""
        if found.assignment is None:
            return found
        score = float(self.graph.log_score(found.assignment))
        return replace(
            found, assignment=self.assignment(found.assignment), log_score=score, lower_bound=score,
            upper_bound=None if found.upper_bound is None else max(score, found.upper_bound),
            stats={**found.stats, **self.stats},
        )  # fmt: skip

    @property
    def stats(self) -> dict[str, float]:
        """What the sums were."""
        return {"summed_variables": self.steps.num_sums, "log2_largest_sum": round(self.steps.largest, 2)}


def query_problem(graph: FactorGraph, query: IntArray, most_bits: float, clock: Clock) -> QueryProblem | bool | None:
    """Make the sums of a marginal MAP whose tables have at most 2^`most_bits` entries.

    Returns False if no assignment is possible, and None when the clock stopped the work.

    Args:
        graph: a graph of tables, with its evidence.
        query: the variables to maximise over.
        most_bits: log2 of the entries of the largest table of a sum.
        clock: the clock of the call.
    """
    reduced = to_free_part(graph)
    if reduced is None:
        return False
    asked = np.zeros(graph.num_vars, bool)
    asked[query] = True
    own = asked if reduced.variables is None else asked[reduced.variables]
    steps = plan_sums(reduced.graph.structure, cheap_sums(reduced.graph.structure, ~own, most_bits))
    found = sum_out_part(reduced.graph, steps, clock)
    if found is None:
        return None
    left, variables = found
    return QueryProblem(reduced, steps, left, variables, own[variables])
