"""Max-product linear programming: dual block coordinate descent over factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from equifactor.options import option
from equifactor.registry import register
from equifactor.result import Estimate, Task
from equifactor.solver import ALL_SYMMETRIES, GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph


@register("mplp")
@dataclass(frozen=True, kw_only=True)
class Mplp(GraphSolver):
    """MAP by dual descent factor by factor, with an upper bound that never rises [Globerson07].

    Every factor in turn shares its max-marginals equally among its variables, the block minimum of the dual of the
    local linear program. Assignments are decoded along the way and the best is kept; status `optimal` when its score
    meets the bound. The bound can stall above the optimum of the linear program. Cost O(T) per iteration.
    """

    tasks = (Task.MAP,)
    symmetries = ALL_SYMMETRIES - {"global"}  # sweeps go through the factors in the order of the model

    iterations: int = option(100_000, "most sweeps over all factors", low=0)
    gap: float = option(1e-7, "relative gap between bound and score that counts as optimal", low=0.0)
    tolerance: float = option(1e-9, "stop when ten sweeps lower the bound by less, relatively", low=0.0)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Sweep, decode, compare."""
        from equifactor.graph import compile
        from equifactor.solvers.optimise.ascent import FactorAscent
        from equifactor.solvers.optimise.close_gap import Limits, close_gap

        limits = Limits(self.iterations, self.gap, 10, self.tolerance)
        return close_gap(FactorAscent(compile(graph)), limits, context)
