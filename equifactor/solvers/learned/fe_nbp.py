"""FE-NBP: belief propagation whose damping is a network, one number per edge state (section 3.2 of [Sun21])."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from equifactor.solvers.learned.fe_nbp_solver import FENBPConfig, FENBPSolver
from equifactor.solvers.learned.layers import GraphNorm, logit, mlp, settling, squash, zero_
from equifactor.solvers.learned.network import Network, NetworkState
from equifactor.solvers.learned.wiring import Wiring

# Added to changes and variances, so that their logarithms stay finite. It is part of the network: trained weights
# depend on it.
_LEAST = 1e-6


class FENBP(Network):
    """`m = m~ + alpha (m_prev - m~)`, alpha = phi(m_prev, m~, b_i, sum b_a, max b_a) for each edge state (Eq. 7 and 8).

    phi is one network for all edges and states, so all three symmetries hold for any weights. Untrained it is BP with
    damping `config.damping`, whose logit is added to the last layer; only that layer starts at zero.

    Beyond [Sun21], with `context` phi also sees the number of the step, the mean over the graph of |m~ - m_prev|, and
    mean and spread over the graph of its first hidden layer. With the five features of [Sun21] alone it cannot tell
    a message on its way from one that goes round a loop for the tenth time. Nor can it tell a weakly coupled graph from
    a weakly coupled corner of a strongly coupled graph. With `settle`, 1 - alpha is multiplied by min(1, T/t)^settle,
    so that messages converge on any graph, even where BP oscillates.
    """

    config_class = FENBPConfig
    solver_class = FENBPSolver
    hidden_axes = (None,)

    def __init__(self, config: FENBPConfig) -> None:
        super().__init__(config)
        self.features = tuple(config.features.split("+"))
        self.alpha, self.bounded = config.alpha, config.bounded
        self.first = nn.Linear(len(self.features), config.hidden)
        self.second = nn.Linear(config.hidden, config.hidden)
        self.last = nn.Linear(config.hidden, 1)
        zero_(self.last)
        self.first_alpha = logit(config.damping) if config.bounded else config.damping
        self.norms = nn.ModuleList([GraphNorm(config.hidden) for _ in range(2)] if config.norm else [])
        self.settle = config.settle
        self.whole = mlp((2 + 2 * config.hidden, config.hidden, config.hidden)) if config.context else None

    def start(self, wiring: Wiring) -> NetworkState:
        """Return uniform messages and a count of steps."""
        msg = wiring.uniform_messages()
        return NetworkState(wiring, msg, (msg.new_zeros(()),))

    def step(self, state: NetworkState) -> NetworkState:
        """Run one damped step of belief propagation; the network chooses the damping."""
        wiring, old, t = state.wiring, state.msg_fv, state.hidden[0] + 1.0
        msg_vf = wiring.outgoing(old)
        unscaled = wiring.reduce(msg_vf)
        new = wiring.normalize(unscaled)
        moved = self.moved(wiring, old, new, t) if self.whole is not None else None
        damping = self.damping(wiring, self.see(wiring, old, new, msg_vf, unscaled), moved)
        if self.settle:
            damping = 1.0 - (1.0 - damping) * settling(t, self.config.steps, self.settle)
        return NetworkState(wiring, wiring.damp(new, old, damping), (t,))

    def see(self, wiring: Wiring, old: Tensor, new: Tensor, msg_vf: Tensor, unscaled: Tensor) -> Float[Tensor, "S2 H"]:
        """Return the features of each edge state, in the log and squashed.

        The marginal of the factor belief is the product of the two messages that meet on the edge, so `factor-sum`
        (for MAP: `factor-max`) does not need the table. The other feature costs a second reduction of the tables.
        """
        seen = {"old": old, "new": new}
        if "variable" in self.features:
            seen["variable"] = wiring.normalize(msg_vf + old)
        if {"factor-sum", "factor-max"} & set(self.features):
            total = unscaled if wiring.semiring == "sum" else wiring.reduce(msg_vf, "sum")
            log_z = wiring.log_total(total + msg_vf, "sum")
            if wiring.has_zeros:
                log_z = torch.where(torch.isneginf(log_z), 0.0, log_z)
            seen["factor-sum"] = total + msg_vf - log_z
            if "factor-max" in self.features:
                best = unscaled if wiring.semiring == "max" else wiring.reduce(msg_vf, "max")
                seen["factor-max"] = best + msg_vf - log_z
        return squash(torch.stack([seen[name] for name in self.features], dim=-1))

    def moved(self, wiring: Wiring, old: Tensor, new: Tensor, t: Tensor) -> Float[Tensor, "G 2"]:
        """Return the progress of each graph: the logarithms of the step and of the mean change BP would make."""
        change = wiring.mean_per_graph((new.exp() - old.clamp_max(0.0).exp()).abs()[:, None])
        return torch.cat((t.log().expand_as(change), (change + _LEAST).log()), dim=1)

    def damping(self, wiring: Wiring, seen: Tensor, moved: Tensor | None = None) -> Float[Tensor, " S2"]:
        """Return alpha for each edge state, or one alpha per edge, from what `see` and `moved` return."""
        hidden, whole = self.first(seen), None
        if self.norms or moved is not None:
            mean, variance, centred = wiring.graph_statistics(hidden)
            if self.whole is not None and moved is not None:
                spread = 0.5 * (variance + _LEAST).log()
                whole = wiring.of_graph(self.whole(torch.cat((moved, mean, spread), dim=1)))
            if self.norms:
                hidden = self.norms[0](wiring, variance, centred)
        hidden = self.second(nn.functional.leaky_relu(hidden))
        if self.norms:
            _, variance, centred = wiring.graph_statistics(hidden)
            hidden = self.norms[1](wiring, variance, centred)
        if whole is not None:  # Added after the norms, which would remove it.
            hidden = hidden + whole
        hidden = nn.functional.leaky_relu(hidden)
        if self.alpha == "edge":
            hidden = wiring.max_over_states(hidden)
        out = self.last(hidden).squeeze(-1) + self.first_alpha
        return out.sigmoid() if self.bounded else out
