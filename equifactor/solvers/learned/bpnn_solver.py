"""BPNN, trained: `equifactor.solvers.learned.bpnn` is the network."""

from __future__ import annotations

from dataclasses import dataclass

from equifactor.registry import register
from equifactor.solvers.learned.learned_solver import NeuralSolver


@register("bpnn")
@dataclass(frozen=True, kw_only=True)
class BeliefPropagationNetwork(NeuralSolver):
    """Belief propagation with a learned damping of whole message vectors; one cardinality per model (BPNN).

    Marginals and ln Z are those of the Bethe formula, neither bound; for MAP the assignment is a lower bound and
    appendix C an upper one. Any arity. Untrained it is nearly undamped belief propagation.
    """

    symmetries = frozenset(("global", "local variable"))
    takes = "graphs whose variables all have the number of states it was trained for"
