"""The solver `fe-gnn` and the settings of its network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from equifactor.base.options import option
from equifactor.base.status import Task
from equifactor.solvers.learned.learned_solver import InTorch, NeuralSolver
from equifactor.solvers.learned.network_config import NetworkConfig
from equifactor.solving.registry import register


@dataclass(frozen=True, kw_only=True)
class FEGNNConfig(NetworkConfig):
    """Settings of FE-GNN; the defaults are those of [Sun21]."""

    card: int = option(2, "number of states of every variable", low=2)
    channels: int = option(5, "size D of the hidden message states", low=1)
    hidden: int = option(64, "width of the two hidden layers of each network", low=1)
    features: Literal["none", "bp"] = option("none", "bp: damped BP runs alongside, and the network sees its messages")
    settle: float = option(
        0.0, "after T steps each change is scaled by (T/t)^settle; above 1 hidden states converge", low=0.0
    )


@register("fe-gnn")
@dataclass(frozen=True, kw_only=True)
class FEGNNSolver(NeuralSolver):
    """Recurrent network on messages that meets the tables in a tensor sum; one cardinality per model (FE-GNN).

    Marginals and assignments are learned. It does not estimate ln Z. For MAP the score of the assignment is a lower
    bound, and its messages give an upper bound. Takes any arity. Untrained weights are random.
    """

    config_class = FEGNNConfig
    network_class = InTorch("equifactor.solvers.learned.fe_gnn:FEGNN")
    native_class = "equifactor.solvers.learned.native.native_fe_gnn:NativeFEGNN"
    tasks = (Task.MAR, Task.MAP)
    symmetries = frozenset(("global", "local variable"))
    takes = "graphs whose variables all have the number of states it was trained for"
