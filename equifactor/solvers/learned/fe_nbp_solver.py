"""FE-NBP, trained: `equifactor.solvers.learned.fe_nbp` is the network."""

from __future__ import annotations

from dataclasses import dataclass

from equifactor.registry import register
from equifactor.solvers.learned.learned_solver import NeuralBP


@register("fe-nbp")
@dataclass(frozen=True, kw_only=True)
class NeuralBeliefPropagation(NeuralBP):
    """Belief propagation whose damping a small network chooses, one number per edge state (FE-NBP).

    Marginals and ln Z are those of the Bethe formula, neither bound; for MAP the assignment is a lower bound and
    appendix C an upper one. Any cardinality and arity. Cost of a step: BP plus 5,000 multiplications per edge state.
    """
