"""FE-GNN: a recurrent network on messages that meets the tables in a tensor sum (section 3.3 of [Sun21])."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equifactor.factors import tensors
from equifactor.kernels.segments import segment_sum
from equifactor.solvers.learned.fe_gnn_solver import FEGNNConfig, FEGNNSolver
from equifactor.solvers.learned.layers import mlp, settling, squash
from equifactor.solvers.learned.network import Network, NetworkState, check_cardinality
from equifactor.solvers.learned.wiring import Flat, Wiring, others

# The GRU sees larger log messages as this value. It is part of the network: trained weights depend on it.
_CLAMP = 30.0


class FEGNN(Network):
    """Hidden states of size D on both directions of every edge, updated by two GRUs (Eq. 14 and 15).

    h_{i->a} = GRU1(sum_{c != a} MLP1(h_{c->i}), h_{i->a}); h_{a->i} = GRU2(LSE(Psi_a + tensor sum of y), h_{a->i}),
    y = MLP2(h_{j->a}), the LSE over the states of all j != i; beliefs are MLP3(sum_a h_{a->i}). Unary factors are
    factors of one variable. Respects global and local variable symmetry for any weights; the states of a variable keep
    their order.
    """

    config_class = FEGNNConfig
    solver_class = FEGNNSolver
    hidden_axes = ("edges", "edges", "entries", None)

    def __init__(self, config: FEGNNConfig) -> None:
        super().__init__(config)
        D, H, X = config.channels, config.hidden, config.card
        self.card, self.channels, self.sees_bp, self.settle = X, D, config.features == "bp", config.settle
        extra = X if self.sees_bp else 0
        self.mlp1 = mlp((D + extra, H, H, D), nn.ReLU)
        self.gru1 = nn.GRUCell(D, D)
        self.mlp2 = mlp((D + extra, H, H, X), nn.ReLU)
        self.gru2 = nn.GRUCell(X, D)
        self.mlp3 = mlp((D, H, H, X), nn.ReLU)

    def check(self, flat: Flat) -> None:
        """Raise `ModelError` unless all variables have the cardinality of the model."""
        check_cardinality(flat, self.kind, self.card)

    def start(self, wiring: Wiring) -> NetworkState:
        """Return hidden states of zero and uniform messages; tables lose their scale, which no answer depends on."""
        zeros = wiring.log_phi.new_zeros(len(wiring.var_of_edge), self.channels)
        return NetworkState(
            wiring, wiring.uniform_messages(), (zeros, zeros, _without_scale(wiring), zeros.new_zeros(()))
        )

    def step(self, state: NetworkState) -> NetworkState:
        """Update the hidden states from variables to factors, then from factors to variables."""
        wiring, (h_vf, h_fv, log_phi, t) = state.wiring, state.hidden
        t = t + 1.0
        seen_fv = self._seen(h_fv, wiring.messages(state.msg_fv)) if self.sees_bp else h_fv
        sent = others(self.mlp1(seen_fv), wiring.var_of_edge, wiring.num_vars)
        h_vf = self._moved(h_vf, self.gru1(sent, h_vf), t)
        msg = state.msg_fv
        if self.sees_bp:
            msg_vf = wiring.outgoing(msg)
            seen_vf = self._seen(h_vf, tensors.sum_of_other_factors(wiring.flat, wiring.messages(msg)))
            new = wiring.normalize(wiring.reduce(msg_vf))
            msg = wiring.damp(new, msg, msg.new_tensor(0.5))
        else:
            seen_vf = h_vf
        out = tensors.reduce_tables(
            wiring.all_groups, log_phi, self.mlp2(seen_vf).reshape(-1), wiring.semiring, zeros=wiring.has_zeros
        )
        h_fv = self._moved(h_fv, self.gru2(out.clamp(-_CLAMP, _CLAMP).reshape(-1, self.card), h_fv), t)
        if not self.sees_bp:
            # The output of the tables is a log message like any other. Bounds are computed from it.
            msg = wiring.normalize(out[len(wiring.unary_messages) :])
        return NetworkState(wiring, msg, (h_vf, h_fv, log_phi, t))

    def _moved(self, before: Tensor, after: Tensor, t: Tensor) -> Tensor:
        """Return `after`, or with `settle` a mean of `before` and `after` that moves less with every step."""
        return torch.lerp(before, after, settling(t, self.config.steps, self.settle)) if self.settle else after

    def _seen(self, hidden: Tensor, msg: Tensor) -> Tensor:
        """Return [E, D + card] hidden states beside the messages of belief propagation."""
        return torch.cat((hidden, squash(msg).reshape(-1, self.card)), dim=1)

    def log_beliefs(self, state: NetworkState) -> Tensor:
        """Return MLP3 of the sum of the incoming hidden states [X]; impossible states stay impossible."""
        flat = state.wiring.flat
        out = self.mlp3(segment_sum(state.hidden[1], flat.var_of_edge, flat.num_vars)).reshape(-1)
        if not flat.has_zeros:
            return out
        return torch.where(torch.isneginf(state.wiring.log_beliefs(state.msg_fv)), -torch.inf, out)


def _without_scale(wiring: Wiring) -> Tensor:
    """Return the log tables [T], each minus the mean of its possible entries."""
    blocks = [wiring.log_phi.new_zeros(0)]
    for group in wiring.all_groups:
        table = group.table(wiring.log_phi).reshape(group.num_factors, -1)
        possible = ~torch.isneginf(table)
        mean = torch.where(possible, table, 0.0).sum(1, keepdim=True) / possible.sum(1, keepdim=True).clamp_min(1)
        blocks.append((table - mean).reshape(-1))
    return torch.cat(blocks)
