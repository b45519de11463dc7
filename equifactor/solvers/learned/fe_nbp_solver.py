"""The solver `fe-nbp` and the settings of its network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from equifactor.base.errors import OptionError
from equifactor.base.options import choices, option
from equifactor.solvers.learned.learned_solver import InTorch
from equifactor.solvers.learned.network_config import NetworkConfig
from equifactor.solvers.learned.neural_bp import NeuralBP
from equifactor.solving.registry import register

FEATURES = ("old", "new", "variable", "factor-sum", "factor-max")


@dataclass(frozen=True, kw_only=True)
class FENBPConfig(NetworkConfig):
    """Settings of FE-NBP; the defaults are those of [Sun21]."""

    hidden: int = option(64, "width of the two hidden layers", low=1)
    features: str = option("+".join(FEATURES), f"what the network sees, of {'+'.join(FEATURES)}")
    norm: bool = option(False, "normalise hidden channels over each graph")
    context: bool = option(False, "phi also sees the step, and means and spreads over the whole graph")
    damping: float = option(0.5, "damping of the untrained model", low=0.0, below=1.0)
    alpha: Literal["state", "edge"] = option("state", "one damping per edge state, or one per edge")
    bounded: bool = option(True, "keep the damping between 0 and 1; otherwise it may take any value")
    settle: float = option(
        0.0, "after T steps each change is scaled by (T/t)^settle; above 1 messages converge", low=0.0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.features.split("+"):
            if name not in FEATURES:
                raise OptionError(f"fe-nbp has no feature {name!r}; {choices(name, list(FEATURES))}")


@register("fe-nbp")
@dataclass(frozen=True, kw_only=True)
class FENBPSolver(NeuralBP):
    """Belief propagation whose damping a small network chooses, one number per edge state (FE-NBP).

    Marginals and ln Z follow from the Bethe formula; neither is a bound. For MAP the score of the assignment is a lower
    bound, and its messages give an upper bound. Any cardinality and arity. A step costs BP plus 5,000 multiplications
    per edge state.
    """

    any_kind = True
    config_class = FENBPConfig
    network_class = InTorch("equifactor.solvers.learned.fe_nbp:FENBP")
    native_class = "equifactor.solvers.learned.native.native_fe_nbp:NativeFENBP"
