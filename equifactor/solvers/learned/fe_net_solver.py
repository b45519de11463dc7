"""The solver `fe-net` and the settings of its network."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from equifactor.base.options import option
from equifactor.solvers.learned.fe_nbp_solver import FENBPSolver
from equifactor.solvers.learned.learned_solver import InTorch
from equifactor.solvers.learned.network_config import NetworkConfig
from equifactor.solvers.learned.neural_bp import NeuralBP
from equifactor.solving.registry import register
from equifactor.solving.solver import IterativeSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.status import Task
    from equifactor.graph import FactorGraph
    from equifactor.solvers.learned.best_assignments import Member
    from equifactor.solving.estimate import Estimate


@dataclass(frozen=True, kw_only=True)
class FENetConfig(NetworkConfig):
    """Settings of FE-Net."""

    channels: int = option(16, "size C of the hidden vector of an edge state", low=1)
    tables: int = option(8, "channels Q that pass through the tables; 0: none", low=0)
    hidden: int = option(64, "width of the hidden layers", low=1)
    loops: bool = option(True, "messages are corrected around triangles and squares of pair factors")
    temper: bool = option(False, "messages and beliefs are raised to learned powers, for strong couplings")
    context: bool = option(True, "each state sees the mean over the states of its variable")
    damping: float = option(0.5, "damping of the untrained model", low=0.0, below=1.0)
    settle: float = option(
        0.0, "after T steps each change is scaled by (T/t)^settle; above 1 messages converge", low=0.0
    )


# Steps of the untrained network in a MAP run. On the public models for training its error after 100 steps is .038 on
# Segment, where BP has .095.
_LOOP_STEPS = 100


@register("fe-net")
@dataclass(frozen=True, kw_only=True)
class FENetSolver(NeuralBP):
    """Belief propagation with a learned hidden vector on every edge state; respects all symmetries (FE-Net).

    Marginals are learned, and ln Z is the Bethe formula on its messages; neither is a bound. For MAP the score of the
    assignment is a lower bound, and its messages give an upper bound. Any cardinality and arity.
    """

    any_kind = True
    config_class = FENetConfig
    network_class = InTorch("equifactor.solvers.learned.fe_net:FENet")
    native_class = "equifactor.solvers.learned.native.native_fe_net:NativeFENet"

    def members(self) -> list[IterativeSolver[Any]]:
        """Return BP, the untrained network, and `fe-nbp` unless the network has weights of the user.

        The untrained network is BP that is corrected around triangles and squares. On a CPU it runs in NumPy, where it
        skips all layers. `fe-nbp` is wrong in other places than `fe-net`: on the public grids for training, the better
        parts of both have an error of .0038 where `fe-net` has .0055.
        """
        loops = dataclasses.replace(
            self, weights=None, untrained=True, engine="auto", iterations=_LOOP_STEPS, tighten=0
        )
        damped = [] if self.weights else [FENBPSolver(decode=self.decode, engine=self.engine)]
        return [*super().members(), loops, *damped]

    def other_members(self) -> list[Member]:
        """Return reweighted max-product: on dense models it is better than all others."""
        from equifactor.solvers.learned.reweighted_max import ReweightedMax

        return [ReweightedMax()]

    def judged(
        self, own: list[Estimate], graphs: Sequence[FactorGraph], task: Task, context: SolveContext
    ) -> list[Estimate]:
        """Return the estimates with means of the marginals of the network and of BP, weighted by trust in each.

        The trust was fitted for the weights of the package, so a network with weights of the user answers for itself.
        """
        if self.weights is not None:
            return own
        from equifactor.solvers.learned.network_trust import within_trust

        bp, loops = self.members()[:2]
        return within_trust(own, bp, loops, graphs, task, context)
