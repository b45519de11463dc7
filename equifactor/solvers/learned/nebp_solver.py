"""NEBP, trained: `equifactor.solvers.learned.nebp` is the network."""

from __future__ import annotations

from dataclasses import dataclass

from equifactor.registry import register
from equifactor.solvers.learned.learned_solver import NeuralSolver


@register("nebp")
@dataclass(frozen=True, kw_only=True)
class EnhancedBeliefPropagation(NeuralSolver):
    """Belief propagation whose messages a graph network corrects; one cardinality per model (NEBP).

    Marginals and ln Z are those of the corrected messages, neither bound; for MAP the assignment is a lower bound and
    appendix C an upper one. Any arity. Untrained it is belief propagation.
    """

    symmetries = frozenset(("global", "local variable"))
    takes = "graphs whose variables all have the number of states it was trained for"
