"""The default: look at the graph, then pick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from equifactor.result import Estimate, Task
from equifactor.solver import GraphSolver, Run, Solver
from equifactor.spec import option, register

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph


@register("auto")
@dataclass(frozen=True, kw_only=True)
class Auto(GraphSolver):
    """Picks by itself: exact where its plan fits the memory limit, otherwise damped BP; says which and why."""

    exact_on = "trees"  # and wherever it picks exact

    memory_limit: float = option(1.0, "GiB that exact may use", low=0.0)

    def run(self, graphs: Sequence[FactorGraph], task: Task, run: Run) -> list[Estimate]:
        """Graphs that go to BP go as one batch."""
        from equifactor.exact.plan import plan
        from equifactor.solvers.bp import BeliefPropagation
        from equifactor.solvers.exact import Exact

        exact = Exact(memory_limit=self.memory_limit)
        plans = [plan(graph) for graph in graphs]
        fits = [p.fits(self.memory_limit) for p in plans]
        bp = BeliefPropagation(damping=0.5, iterations=1000)
        answers: dict[int, Estimate] = {}
        for solver, chosen in ((exact, True), (bp, False)):
            todo = [n for n, fit in enumerate(fits) if fit is chosen]
            if todo:
                estimates = solver.run([graphs[n] for n in todo], task, run)
                answers |= {n: _say(e, solver, f"{plans[n].cost}") for n, e in zip(todo, estimates, strict=True)}
        return [answers[n] for n in range(len(graphs))]

    def run_one(self, graph: FactorGraph, task: Task, run: Run) -> Estimate:
        """A batch of one."""
        return self.run([graph], task, run)[0]


def _say(estimate: Estimate, solver: Solver, cost: str) -> Estimate:
    message = f"auto chose {solver}: elimination needs {cost}. {estimate.message or estimate.status.advice}"
    return replace(estimate, message=message, stats={**estimate.stats, "chosen": str(solver)})
