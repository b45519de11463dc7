"""NEBP: belief propagation whose messages are corrected by a graph network that runs beside it [Satorras21]."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from equifactor.base.options import option
from equifactor.factors import tensors
from equifactor.kernels.segments import logsumexp, segment_sum
from equifactor.solvers.learned.layers import mlp, squash
from equifactor.solvers.learned.learned_solver import NeuralSolver
from equifactor.solvers.learned.network import Network, NetworkConfig, NetworkState, check_cardinality
from equifactor.solvers.learned.table_features import unary_features
from equifactor.solvers.learned.wiring import Flat, Wiring
from equifactor.solving.registry import register


@dataclass(frozen=True, kw_only=True)
class NEBPConfig(NetworkConfig):
    """Settings of NEBP; the defaults are those of [Satorras21], which runs 20 steps."""

    card: int = option(2, "number of states of every variable", low=2)
    channels: int = option(32, "size D of hidden vectors of variables and factors, and of messages", low=1)
    hidden: int = option(32, "width of the hidden layer of each network", low=1)
    rounds: int = option(2, "rounds of the graph network for each step of BP", low=1)


class NEBP(Network):
    """`m_{a->i} = f_s(M_{a->i}) m~_{a->i} + f_u(M_{a->i})`: m~ from BP, M from a graph network that sees m~.

    After each step of BP, the graph network runs `rounds` times on hidden vectors of variables and factors:
    M_{a->i} = MLP[h_a, h_i, m~_{a->i}] and M_{i->a} = MLP[h_i, h_a, m_{i->a}], summed at each node, then a GRU.
    Messages are log messages, where f_s (one number per edge) makes a message more or less certain and f_u (one per
    state) may have either sign. The last layers start at zero, f_s = 1 and f_u = 0: untrained it is BP. Unary factors
    are treated like all other factors, but with their own networks. `penalty(state)` is the mean square of f_u.

    The networks see messages but no tables, so local variable symmetry holds for any weights. The states of a variable
    keep their order.
    """

    config_class = NEBPConfig
    hidden_axes = ("variables", "factors", "unary", None)

    def __init__(self, config: NEBPConfig) -> None:
        super().__init__(config)
        X, D, H = config.card, config.channels, config.hidden
        self.card, self.channels, self.rounds = X, D, config.rounds
        self.unary, self.larger = _Edges(X, D, H), _Edges(X, D, H)
        self.variables, self.gru_v = mlp((D + X, H, D), nn.SELU), nn.GRUCell(D, D)
        self.factors, self.gru_f = mlp((D, H, D), nn.SELU), nn.GRUCell(D, D)

    def check(self, flat: Flat) -> None:
        """Raise `ModelError` unless all variables have the cardinality of the model."""
        check_cardinality(flat, self.kind, self.card)

    def start(self, wiring: Wiring) -> NetworkState:
        """Return BP's first messages; hidden are vectors of variables and factors, unary messages and the penalty."""
        flat, zeros = wiring.flat, wiring.unary.new_zeros
        h_v, h_f = zeros(flat.num_vars, self.channels), zeros(flat.num_factors, self.channels)
        return NetworkState(wiring, wiring.uniform_messages(), (h_v, h_f, wiring.unary_messages, zeros(())))

    def step(self, state: NetworkState) -> NetworkState:
        """Do a step of BP, run the graph network and correct the messages."""
        wiring, (h_v, h_f, unary, _) = state.wiring, state.hidden
        flat = wiring.flat
        msg_vf = tensors.sum_of_other_factors(flat, torch.cat((unary, state.msg_fv)))
        new = tensors.marginalize_tables(flat, msg_vf, wiring.semiring)
        seen_fv, seen_vf = self._seen(new), self._seen(msg_vf)
        b = unary_features(wiring, self.card)
        for _ in range(self.rounds):
            of_v, of_f = h_v[flat.var_of_edge], h_f[flat.factor_of_edge]
            fv = self._by_arity(wiring, "to_variable", torch.cat((of_f, of_v, seen_fv), dim=1))
            vf = self._by_arity(wiring, "to_factor", torch.cat((of_v, of_f, seen_vf), dim=1))
            at_v = segment_sum(fv, flat.var_of_edge, flat.num_vars)
            at_f = segment_sum(vf, flat.factor_of_edge, flat.num_factors)
            h_v = self.gru_v(self.variables(torch.cat((at_v, b), dim=1)), h_v)
            h_f = self.gru_f(self.factors(at_f), h_f)
        scale = 1.0 + self._by_arity(wiring, "scale", fv)
        shift = self._by_arity(wiring, "shift", fv)
        zero = torch.isneginf(new).reshape(-1, self.card)
        finite = torch.where(zero, 0.0, new.reshape(-1, self.card))
        corrected = finite * scale + shift
        if flat.has_zeros:
            corrected = torch.where(zero, -torch.inf, corrected.clamp_min(wiring.floor))
        msg = _normalized(corrected, wiring.semiring).reshape(-1)
        penalty = shift.square().sum() / max(1, shift.numel())
        return NetworkState(wiring, msg[len(unary) :], (h_v, h_f, msg[: len(unary)], penalty))

    def log_beliefs(self, state: NetworkState) -> Float[Tensor, " X"]:
        """Return the sum of all corrected messages, those of unary factors included."""
        flat = state.wiring.flat
        _, _, unary, _ = state.hidden
        return tensors.variable_log_beliefs(flat, torch.cat((unary, state.msg_fv)))

    @staticmethod
    def penalty(state: NetworkState) -> Float[Tensor, ""]:
        """Return the mean square of f_u in the last step: add it to the loss to stay near BP."""
        *_, penalty = state.hidden
        return penalty

    def _seen(self, msg: Float[Tensor, " S"]) -> Float[Tensor, "E D"]:
        """Return the features of messages for the graph network, one row per edge."""
        return squash(_normalized(msg.reshape(-1, self.card), "sum"))

    def _by_arity(self, wiring: Wiring, network: str, rows: Float[Tensor, "E D"]) -> Float[Tensor, "E K"]:
        """Send the edges of unary factors, which come first, through one network and all others through another."""
        cut = len(rows) - wiring.num_edges
        parts = zip((self.unary, self.larger), (rows[:cut], rows[cut:]), strict=True)
        return torch.cat([getattr(edges, network)(part) for edges, part in parts])


class _Edges(nn.Module):
    """The networks of the edges of one class of factors."""

    def __init__(self, card: int, channels: int, hidden: int) -> None:
        super().__init__()
        seen = 2 * channels + card
        self.to_variable = mlp((seen, hidden, channels), nn.SELU)
        self.to_factor = mlp((seen, hidden, channels), nn.SELU)
        self.scale = mlp((channels, hidden, 1), nn.SELU, last_zero=True)
        self.shift = mlp((channels, hidden, card), nn.SELU, last_zero=True)


def _normalized(rows: Float[Tensor, "E D"], semiring: str) -> Float[Tensor, "E D"]:
    """Scale rows so that their entries add up to 1 (sum) or their largest is 1 (max); rows of zeros stay zero."""
    total = (logsumexp(rows, 1) if semiring == "sum" else rows.amax(1)).unsqueeze(1)
    return rows - torch.where(torch.isneginf(total), 0.0, total)


@register("nebp")
@dataclass(frozen=True, kw_only=True)
class NEBPSolver(NeuralSolver):
    """Belief propagation whose messages a graph network corrects; one cardinality per model (NEBP).

    Marginals and ln Z follow from the corrected messages; neither is a bound. For MAP the score of the assignment is a
    lower bound, and its messages give an upper bound. Any arity. Untrained it is belief propagation.
    """

    network_class = NEBP
    symmetries = frozenset(("global", "local variable"))
    takes = "graphs whose variables all have the number of states it was trained for"
