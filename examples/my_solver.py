"""A solver of your own: mean field with one setting, as a file for `--plugin`.

    equifactor solvers my-meanfield --plugin my_solver.py
    equifactor solve model.uai --plugin my_solver.py --solver "my-meanfield(sweeps=50)"
    equifactor evaluate models --plugin my_solver.py --solver my-meanfield --solver bp

In a package of your own, the class needs a line in pyproject.toml instead of the decorator, and no `--plugin`:

    [project.entry-points."equifactor.solvers"]
    my-meanfield = "my_package.my_solver:MyMeanField"
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equifactor import FactorGraph, Status, Task
from equifactor.answers import Marginals
from equifactor.solvers import Estimate, GraphSolver, SolveContext, option, register


@register("my-meanfield")
@dataclass(frozen=True, kw_only=True)
class MyMeanField(GraphSolver):
    """Mean field: each variable in turn is set to its best belief given the beliefs of the others."""

    tasks = (Task.MAR,)
    symmetries = frozenset({"local variable", "variable assignment"})  # It visits the variables in their order.

    sweeps: int = option(20, "number of visits of each variable", low=1)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Return the beliefs after the last sweep, or at the deadline."""
        beliefs = [np.full(d, 1.0 / d) for d in graph.card]
        for variable, state in graph.evidence.items():
            beliefs[variable] = np.eye(graph.card[variable])[state]
        touching: list[list[tuple[list[int], np.ndarray]]] = [[] for _ in beliefs]
        for factor in range(graph.num_factors):
            scope = graph.structure.scope(factor).tolist()
            log_table = np.maximum(graph.log_table(factor), -1e4)  # A true zero is -inf, and 0 times that is NaN.
            for variable in scope:
                touching[variable].append((scope, log_table))
        done = 0
        while done < self.sweeps and not context.clock.stopped:
            for i in graph.free_vars:
                log_belief = sum((_mean(table, scope, beliefs, i) for scope, table in touching[i]), np.zeros(1))
                belief = np.exp(log_belief - log_belief.max()) * np.ones(graph.card[i])
                beliefs[i] = belief / belief.sum()
            done += 1
            context.report(done, self.sweeps)
        status = context.clock.status or Status.ITERATION_LIMIT
        return Estimate(status=status, marginals=Marginals.from_list(beliefs), iterations=done)


def _mean(log_table: np.ndarray, scope: list[int], beliefs: list[np.ndarray], variable: int) -> np.ndarray:
    """Return the mean of a log table over the beliefs of all variables but one, [d] by the states of that one."""
    for axis in reversed(range(len(scope))):  # The last axis goes first, so that the others keep their numbers.
        if scope[axis] != variable:
            log_table = np.tensordot(log_table, beliefs[scope[axis]], axes=(axis, 0))
    return log_table
