"""FE-Net, trained: `equifactor.solvers.learned.fe_net` is the network."""

from __future__ import annotations

from dataclasses import dataclass

from equifactor.registry import register
from equifactor.solvers.learned.learned_solver import NeuralBP


@register("fe-net")
@dataclass(frozen=True, kw_only=True)
class EquivariantNetwork(NeuralBP):
    """Belief propagation with a learned hidden vector on every edge state; respects all symmetries (FE-Net).

    Marginals are learned, ln Z is the Bethe formula on its messages, neither is a bound; for MAP the assignment is a
    lower bound and appendix C an upper one. Any cardinality and arity.
    """
