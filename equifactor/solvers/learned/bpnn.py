"""BPNN: belief propagation with a learned, vector-valued damping [Kuck20], and the scalar variant of [Sun21]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from equifactor.base.options import option
from equifactor.solvers.learned.layers import logit, mlp, squash, zero_
from equifactor.solvers.learned.learned_solver import NeuralSolver
from equifactor.solvers.learned.network import Network, NetworkConfig, NetworkState, check_cardinality
from equifactor.solvers.learned.wiring import Flat, Wiring
from equifactor.solving.registry import register

_CLAMP = 99.0  # H sees larger log differences as this value, as in the published code.


@dataclass(frozen=True, kw_only=True)
class BPNNConfig(NetworkConfig):
    """Settings of BPNN; the defaults are those of [Kuck20]."""

    card: int = option(2, "number of states of every variable", low=2)
    variant: Literal["vector", "scalar"] = option("vector", "vector: BPNN-D; scalar: one learned damping per edge")
    a: float = option(0.95, "vector: share of the new message, 1 is undamped BP and cannot learn", low=0.0, high=1.0)
    hidden: int = option(64, "scalar: width of the two hidden layers", low=1)
    damping: float = option(0.5, "scalar: damping of the untrained model", low=0.0, below=1.0)


class BPNN(Network):
    """`m = m~ + (1 - a)[H(m_prev - m~) - H(0)]` for both directions of every edge (BPNN-D), H a network on |X| numbers.

    H = Linear-ReLU-Linear-ReLU starts with identity matrices and zero biases: the untrained network takes back the
    share 1 - a of the fall of an entry, and leaves entries that rise. For any H, a fixed point of BP is a fixed point
    of BPNN-D, because H(0) is subtracted; with a = 1 it is BP. `variant=scalar`: `m = m~ + alpha (m_prev - m~)`, factor
    to variable only, with one alpha = sigmoid(MLP[m~, m_prev]) per edge; untrained it is BP with `damping`.

    H sees the states of a variable in their order, so variable assignment symmetry does not hold.
    """

    config_class = BPNNConfig
    hidden_axes = ("edge states",)

    def __init__(self, config: BPNNConfig) -> None:
        super().__init__(config)
        self.card, self.a = config.card, config.a
        self.scalar = config.variant == "scalar"
        if self.scalar:
            self.alpha = mlp((2 * self.card, config.hidden, config.hidden, 1), nn.ReLU)
            zero_(self.alpha[-1], logit(config.damping))  # If all layers were zero, none could learn.
        else:
            self.to_factor, self.to_variable = _identity(self.card), _identity(self.card)

    def check(self, flat: Flat) -> None:
        """Raise `ModelError` unless all variables have the cardinality of the model."""
        check_cardinality(flat, self.kind, self.card)

    def start(self, wiring: Wiring) -> NetworkState:
        """Return uniform messages in both directions."""
        msg = wiring.uniform_messages()
        return NetworkState(wiring, msg, () if self.scalar else (msg,))

    def step(self, state: NetworkState) -> NetworkState:
        """Pass messages from variables to factors, then from factors to variables."""
        wiring, old = state.wiring, state.msg_fv
        if self.scalar:
            new = wiring.normalize(wiring.reduce(wiring.outgoing(old)))
            seen = squash(torch.cat((new.reshape(-1, self.card), old.reshape(-1, self.card)), dim=1))
            alpha = self.alpha(seen).sigmoid().expand(-1, self.card).reshape(-1)
            return NetworkState(wiring, wiring.damp(new, old, alpha))
        (old_vf,) = state.hidden
        msg_vf = self._mix(wiring, wiring.normalize(wiring.outgoing(old)), old_vf, self.to_factor)
        new = wiring.normalize(wiring.reduce(msg_vf))
        return NetworkState(wiring, self._mix(wiring, new, old, self.to_variable), (msg_vf,))

    def _mix(self, wiring: Wiring, new: Tensor, old: Tensor, H: nn.Module) -> Float[Tensor, " S2"]:
        """Return the new message with its correction, normalised; true zeros stay zero and H does not see them."""
        zero = torch.isneginf(new) | torch.isneginf(old)
        change = torch.where(zero, 0.0, old) - torch.where(zero, 0.0, new)
        rows = change.clamp(-_CLAMP, _CLAMP).reshape(-1, self.card)
        correction = (1.0 - self.a) * (H(rows) - H(torch.zeros_like(rows[:1])))
        mixed = torch.where(zero, 0.0, new) + correction.reshape(-1)
        if wiring.flat.has_zeros:
            mixed = torch.where(zero, -torch.inf, mixed.clamp_min(wiring.floor))
        return wiring.normalize(mixed)


def _identity(card: int) -> nn.Sequential:
    """Return Linear-ReLU-Linear-ReLU with identity matrices and zero biases."""
    layers: list[nn.Module] = []
    for _ in range(2):
        linear = nn.Linear(card, card)
        nn.init.eye_(linear.weight)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers)


@register("bpnn")
@dataclass(frozen=True, kw_only=True)
class BPNNSolver(NeuralSolver):
    """Belief propagation with a learned damping of whole message vectors; one cardinality per model (BPNN).

    Marginals and ln Z follow from the Bethe formula; neither is a bound. For MAP the score of the assignment is a lower
    bound, and its messages give an upper bound. Any arity. Untrained it is nearly undamped belief propagation.
    """

    network_class = BPNN
    symmetries = frozenset(("global", "local variable"))
    takes = "graphs whose variables all have the number of states it was trained for"
