"""Exact inference by variable elimination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.exact.elimination import Elimination
from equifactor.exact.plan import format_bytes, plan
from equifactor.graph import compile
from equifactor.result import Estimate, Status, Task, impossible
from equifactor.solver import GraphSolver, Run
from equifactor.spec import option, register

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.graph import FactorGraph


@register("exact")
@dataclass(frozen=True, kw_only=True)
class Exact(GraphSolver):
    """Variable elimination along a greedy order; refuses when its plan is over the memory limit."""

    exact_on = "all"

    memory_limit: float = option(4.0, "GiB of tables", low=0.0)

    def run_one(self, graph: FactorGraph, task: Task, run: Run) -> Estimate:
        """Plan, check the cost, run; connected components come out as separate roots."""
        steps = plan(graph)
        if not steps.fits(self.memory_limit):
            return Estimate(
                status=Status.TOO_LARGE,
                message=f"elimination needs {steps.cost} and the limit is {format_bytes(self.memory_limit * 2**30)}: "
                "raise memory_limit or use bp",
            )
        elimination = Elimination(graph, steps, run.clock)
        stats = {"width": steps.width, "log2_largest_table": round(steps.log2_largest, 2)}
        stopped = Estimate(status=run.clock.status or Status.TIME_LIMIT, stats=stats)
        if task is Task.MAP:
            best = elimination.best_assignment()
            if best is None:
                return stopped
            score, states = best
            if np.isneginf(score):
                return impossible()
            assignment = _assignment(graph, states)
            return Estimate(
                status=Status.OPTIMAL,
                assignment=assignment,
                lower_bound=score,
                upper_bound=score,
                stats=stats,
            )
        answer = elimination.log_z_and_marginals()
        if answer is None:
            return stopped
        log_z, marginals = answer
        if np.isneginf(log_z):
            return impossible()
        p = np.concatenate([marginals[i] for i in graph.free_vars.tolist()]) if marginals else np.zeros(0)
        return Estimate(
            status=Status.EXACT,
            marginals=compile(graph).marginals(p)[0],
            log_z=log_z,
            lower_bound=log_z,
            upper_bound=log_z,
            stats=stats,
        )


def _assignment(graph: FactorGraph, states: dict[int, int]) -> NDArray[np.int64]:
    full = np.zeros(graph.num_vars, np.int64) if graph.observed is None else graph.observed.copy()
    full[list(states)] = list(states.values())
    return full
