"""Sequential reweighted message passing: dual ascent variable by variable, there and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from equifactor.options import option
from equifactor.registry import register
from equifactor.result import Estimate, Task
from equifactor.solver import ALL_SYMMETRIES, GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph


@register("srmp")
@dataclass(frozen=True, kw_only=True)
class Srmp(GraphSolver):
    """MAP by dual ascent along the variables and back (TRW-S for any arity), with a bound that never rises.

    On pairwise graphs this is TRW-S [Kolmogorov06], in general close to SRMP [Kolmogorov15]: each variable collects
    the max-marginals of its factors and shares their sum among the factors ahead. Assignments are decoded along the
    way and the best is kept; status `optimal` when its score meets the bound. Cost O(T (k - 1)) per iteration, arity k.
    """

    tasks = (Task.MAP,)
    symmetries = ALL_SYMMETRIES - {"global"}  # sweeps go through the variables in the order of the model

    iterations: int = option(100_000, "most passes over all variables", low=0)
    gap: float = option(1e-7, "relative gap between bound and score that counts as optimal", low=0.0)
    tolerance: float = option(1e-9, "stop when ten passes lower the bound by less, relatively", low=0.0)

    cycles: bool = option(False, "tighten along frustrated cycles of pair factors: slower, closer bounds")

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Sweep, decode, compare."""
        from equifactor.graph import compile
        from equifactor.solvers.optimise.ascent import VariableAscent
        from equifactor.solvers.optimise.close_gap import Limits, close_gap
        from equifactor.solvers.optimise.cycle_ascent import CycleAscent

        limits = Limits(self.iterations, self.gap, 200 if self.cycles else 10, self.tolerance)
        flat = compile(graph)
        return close_gap(CycleAscent(flat) if self.cycles else VariableAscent(flat), limits, context)
