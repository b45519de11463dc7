"""GGNN, trained: `equifactor.solvers.learned.ggnn` is the network."""

from __future__ import annotations

from dataclasses import dataclass

from equifactor.registry import register
from equifactor.result import Task
from equifactor.solvers.learned.learned_solver import NeuralSolver


@register("ggnn")
@dataclass(frozen=True, kw_only=True)
class GatedGraphNetwork(NeuralSolver):
    """Gated graph network that sees tables as features; one cardinality and largest arity per model (GGNN).

    Marginals and assignments are learned and ln Z is not given; for MAP the assignment is a lower bound, and the upper
    one is that of plain tables. Untrained its weights are random.
    """

    tasks = (Task.MAR, Task.MAP)
    symmetries = frozenset(("global",))
    takes = "graphs with the number of states it was trained for, and no larger factors"
