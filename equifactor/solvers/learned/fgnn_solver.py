"""FGNN, trained: `equifactor.solvers.learned.fgnn` is the network."""

from __future__ import annotations

from dataclasses import dataclass

from equifactor.registry import register
from equifactor.result import Task
from equifactor.solvers.learned.learned_solver import NeuralSolver


@register("fgnn")
@dataclass(frozen=True, kw_only=True)
class FactorGraphNetwork(NeuralSolver):
    """Graph network on variables and factors with edge-conditioned weights; one cardinality and arity (FGNN).

    Marginals and assignments are learned and ln Z is not given; for MAP the assignment is a lower bound, and the upper
    one is that of plain tables. Untrained its weights are random.
    """

    tasks = (Task.MAR, Task.MAP)
    symmetries = frozenset(("global",))
    takes = "graphs with the number of states it was trained for, and no larger factors"
