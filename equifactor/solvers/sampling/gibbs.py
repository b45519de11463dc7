"""Marginals by Gibbs sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equifactor.graph import compile
from equifactor.options import option
from equifactor.registry import register
from equifactor.result import Estimate, Status, Task
from equifactor.solver import GraphSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph

R_HAT_LIMIT = 1.05  # chains that differ by more have not mixed


@register("gibbs")
@dataclass(frozen=True, kw_only=True)
class Gibbs(GraphSolver):
    """Several Gibbs chains; marginals are averages of conditional distributions, checked by R-hat."""

    tasks = (Task.MAR,)
    symmetries = frozenset()  # random

    chains: int = option(4, "independent chains", low=1)
    burn_in: int = option(500, "sweeps dropped at the start; at most a quarter of the time limit", low=0)
    samples: int = option(4000, "draws of each chain that count", low=1)
    thin: int = option(1, "sweeps from one draw to the next", low=1)

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """Starts of positive probability, burn-in, draws, diagnostics."""
        from equifactor.graph.search_model import SearchModel
        from equifactor.solvers.sampling.gibbs_sampler import Chains, draw, find_starts

        flat = compile(graph)
        model = SearchModel(flat)
        starts = find_starts(model, self.chains, context)
        if not starts:
            return Estimate(
                status=context.clock.status or Status.ITERATION_LIMIT,
                message="No assignment of positive probability was found to start from: use exact or bp.",
            )
        draws = draw(Chains(model, starts, context.seed), self.burn_in, self.samples, self.thin, context)
        r_hat, effective = float(draws.r_hat.max(initial=1.0)), float(draws.effective.min(initial=np.inf))
        mixed = r_hat < R_HAT_LIMIT
        finished = draws.sweeps >= (self.samples // 2) * self.thin
        status = Status.CONVERGED if mixed and finished else context.clock.status or Status.ITERATION_LIMIT
        said = f"largest R-hat {r_hat:.3f}, smallest effective sample size {effective:.0f}"
        return Estimate(
            status=status,
            message=f"The chains agree: {said}." if mixed else f"The chains have not mixed: {said}; raise samples.",
            marginals=flat.marginals(draws.marginals)[0],
            iterations=draws.sweeps,
            stats={"max_r_hat": r_hat, "min_effective_samples": effective},
        )
