"""MAP by beam search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from equifactor.options import option
from equifactor.registry import register
from equifactor.result import Estimate, Task
from equifactor.solver import GraphSolver, SolveContext
from equifactor.solvers.optimise.beam_search import beam_search

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph


@register("beam")
@dataclass(frozen=True, kw_only=True)
class Beam(GraphSolver):
    """Keeps the best states visited and examines their single-variable neighbours until nothing changes."""

    tasks = (Task.MAP,)
    symmetries = frozenset()  # it starts from a random state

    width: int = option(10, "states kept", low=1)
    steps: int = option(100_000, "most steps", low=0)
    count_zeros: bool = option(False, "prefer impossible states with fewer zeros, instead of all alike")

    def run_one(self, graph: FactorGraph, task: Task, context: SolveContext) -> Estimate:
        """See `beam_search`."""
        return beam_search(graph, self.width, self.steps, self.count_zeros, context)
