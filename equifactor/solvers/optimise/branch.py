"""Proven MAP by branch and bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from equifactor.options import option
from equifactor.registry import register
from equifactor.result import Estimate, Task
from equifactor.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph


@register("branch")
@dataclass(frozen=True, kw_only=True)
class Branch(GraphSolver):
    """MAP proven by branch and bound: cheap variables are eliminated, message passing bounds what is left.

    Hybrid best-first search [Allouche15] from the messages of `srmp`. Below a decision, factors are renewed by the
    block minimum of MPLP as far as the change reaches; states that cannot beat the best assignment are ruled out.
    Without a time limit it ends with a proof. Open nodes take up to 200 MB, then it goes on depth first.
    """

    tasks = (Task.MAP,)
    exact_on = "all"
    symmetries = frozenset()  # ties between variables are broken by their numbers

    sweeps: int = option(300, "most sweeps of dual ascent before the first node", low=1)
    entries: int = option(64, "eliminate variables whose joint table has no more entries", low=1, high=4096)
    gap: float = option(1e-7, "relative gap between bound and score that counts as optimal", low=0.0)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """The best assignment, proven unless time runs out; then the best one found, and bounds."""
        from equifactor.solvers.optimise.proof import prove

        return prove(graph, context, sweeps=self.sweeps, entries=self.entries, gap=self.gap)
