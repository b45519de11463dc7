"""Enumeration of all assignments: the reference for every other solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.graph import compile
from equifactor.solvers.elimination.impossibility import zero_by_exclusion
from equifactor.solving.estimate import Estimate
from equifactor.solving.registry import register
from equifactor.solving.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph


@register("brute")
@dataclass(frozen=True, kw_only=True)
class BruteForce(GraphSolver):
    """Exact by summing over all joint states; refuses more than 2^22 of them.

    It builds the joint log table factor by factor and computes every answer from it. Cost O(F prod_i |X_i|).
    """

    exact_on = "all"
    any_kind = True
    maximises_query = True

    limit: int = option(2**22, "most joint states", low=1, high=2**28)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Return all answers at once; at the deadline there is no answer, since a partial product is not a bound."""
        states = graph.num_joint_states
        if states > self.limit:
            return Estimate(
                status=Status.TOO_LARGE,
                message=f"Enumeration needs {_power(states)} joint states, but the limit is {_power(self.limit)}. "
                "Use exact or bp.",
            )
        joint = self._joint(graph, context)
        if joint is None:
            return Estimate(status=context.clock.status or Status.TIME_LIMIT)
        top = joint.max()
        if np.isneginf(top):
            return zero_by_exclusion(graph)
        if task is Task.MAP:
            best = np.array(np.unravel_index(int(np.argmax(joint)), joint.shape), np.int64)
            assignment = compile(graph).assignments(best)[0]
            return Estimate(
                status=Status.OPTIMAL, assignment=assignment, lower_bound=float(top), upper_bound=float(top)
            )
        weight = np.exp(joint - top)
        if task is Task.MMAP:
            assert context.query is not None
            return _best_of_query(graph, weight, float(top), context.query)
        total = weight.sum()
        log_z = float(top + np.log(total))
        axes = range(joint.ndim)
        by_axis = [weight.sum(axis=tuple(a for a in axes if a != i)) / total for i in axes]
        return Estimate(
            status=Status.EXACT,
            marginals=compile(graph).marginals(np.concatenate(by_axis) if by_axis else np.zeros(0))[0],
            log_z=log_z,
            lower_bound=log_z,
            upper_bound=log_z,
        )

    def _joint(self, graph: FactorGraph, context: SolveContext) -> FloatArray | None:
        """Return the log table over the free variables, one axis each; None at the deadline."""
        axis_of_var = {v: n for n, v in enumerate(graph.free_vars.tolist())}
        joint = np.zeros(tuple(graph.card[graph.free_vars]))
        for a in range(graph.num_factors):
            if context.clock.stopped:
                return None
            axes = [axis_of_var[i] for i in graph.structure.scope(a).tolist()]
            table = graph.log_table(a).transpose(np.argsort(axes))
            joint += table.reshape([d if n in axes else 1 for n, d in enumerate(joint.shape)])
        return joint


def _best_of_query(graph: FactorGraph, weight: FloatArray, top: float, query: IntArray) -> Estimate:
    """Return the marginal MAP from the weights of all joint states of the free variables, relative to exp(top)."""
    free = graph.free_vars
    asked = np.isin(free, query)
    sums = weight.sum(axis=tuple(np.flatnonzero(~asked).tolist()))
    best = np.unravel_index(int(np.argmax(sums)), sums.shape)
    states = np.full(graph.num_vars, -1) if graph.observed is None else graph.observed.copy()
    states[free[asked]] = best
    score = top + float(np.log(sums[best]))
    return Estimate(status=Status.OPTIMAL, assignment=states, log_score=score, lower_bound=score, upper_bound=score)


def _power(n: int) -> str:
    if n & (n - 1) == 0:
        return f"2^{n.bit_length() - 1}"
    return f"about 2^{np.log2(float(n)):.1f}" if n.bit_length() < 1000 else f"over 2^{n.bit_length() - 1}"
