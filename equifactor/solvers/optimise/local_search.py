"""MAP by local search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from equifactor.graph import compile
from equifactor.options import option
from equifactor.registry import register
from equifactor.result import Estimate, Status, Task
from equifactor.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph


@register("local-search")
@dataclass(frozen=True, kw_only=True)
class LocalSearchSolver(GraphSolver):
    """Best improvement, then annealed regions by moves along trees and tabu walks, until nothing improves."""

    tasks = (Task.MAP,)
    symmetries = frozenset()  # random choices

    start: Literal["unary", "random"] = option("unary", "first assignment: best by the unary factors, or random")
    iterations: int = option(100_000, "most phases, of about 10 ms each on large models", low=0)
    patience: int | None = option(
        None, "stop after so many phases in a row without success; none: 100 and 20 per variable, up to 1,500", low=1
    )

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """The best assignment met; never a proof."""
        from equifactor.graph.search_model import SearchModel
        from equifactor.solvers.optimise.annealing import LocalSearch, run_phases

        def report(search: LocalSearch) -> None:
            context.report(search.phases, None, f"log score {search.score:.6g}")

        flat = compile(graph)
        model = SearchModel(flat)
        rng = np.random.default_rng(context.seed)
        first = model.random_assignment(rng) if self.start == "random" else model.unary_assignment()
        search = LocalSearch(model, first, context.seed)
        patience = self.patience or min(100 + 20 * flat.num_vars, 1500)
        settled = run_phases(search, context.clock, self.iterations, patience, report)
        unfinished = context.clock.status if search.phases < self.iterations else Status.ITERATION_LIMIT
        return Estimate(
            status=Status.CONVERGED if settled else unfinished or Status.ITERATION_LIMIT,
            message="" if search.possible else "No assignment of positive probability was found: try another seed.",
            assignment=flat.assignments(search.best)[0],
            iterations=search.phases,
        )
