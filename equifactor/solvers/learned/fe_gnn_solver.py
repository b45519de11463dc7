"""FE-GNN, trained: `equifactor.solvers.learned.fe_gnn` is the network."""

from __future__ import annotations

from dataclasses import dataclass

from equifactor.registry import register
from equifactor.result import Task
from equifactor.solvers.learned.learned_solver import NeuralSolver


@register("fe-gnn")
@dataclass(frozen=True, kw_only=True)
class GraphNetwork(NeuralSolver):
    """Recurrent network on messages that meets the tables in a tensor sum; one cardinality per model (FE-GNN).

    Marginals and assignments are learned and ln Z is not given; for MAP the assignment is a lower bound and appendix C
    an upper one. Any arity. Untrained its weights are random.
    """

    tasks = (Task.MAR, Task.MAP)
    symmetries = frozenset(("global", "local variable"))
    takes = "graphs whose variables all have the number of states it was trained for"
