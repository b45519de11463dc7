"""FE-Net: belief propagation with a hidden vector on every edge state. It respects all three symmetries."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from equifactor.kernels.segments import segment_logsumexp
from equifactor.solvers.learned.fe_net_solver import FENetConfig, FENetSolver
from equifactor.solvers.learned.fused.fused_step import fuse, fused_step
from equifactor.solvers.learned.layers import logit, mlp, settling, spread, squash, zero_
from equifactor.solvers.learned.loop_corrections import loops_of
from equifactor.solvers.learned.network import Network, NetworkState
from equifactor.solvers.learned.wiring import Wiring

_NEW, _SENT = 1, 2  # Columns of the normalised messages: m~ and m_{i->a}.
_ALPHA, _EPSILON, _KAPPA = 0, 1, 2  # Columns of the linear output.
_LOWEST = -1e3  # Features show a true zero as this log value. It is part of the network: trained weights depend on it.
# Lower limit of the log values that pass through a structured factor. Float32 keeps differences of 8 there, and sums of
# 1e30 such values stay finite.
_NOTHING = -1e8


class FENet(Network):
    """A network that keeps the BP message m(x) and C hidden channels h(x) on every edge state.

    One step is:

    1. BP: m_{i->a} from the other messages, m~ from the table;
    2. u_{i->a}(x) = sum over the other factors of MLP1[h(x), mean_x h];
    3. y(x) = gamma m_{i->a}(x) + MLP2[u(x), mean_x u, m_{i->a}(x)], Q channels;
    4. q_{a->i}(x) = LSE over the other variables' states of (beta Psi_a + tensor sum of y), centred over x;
    5. delta: the corrections of m~ around the loops of the factor (`loop_corrections.py`);
    6. h <- GRU([q, m_prev, m~, m_{i->a}, b_i, b_a, unary, u, delta], h);
    7. m~ <- m~ + (1 + kappa) delta, m = m~ + sigmoid(alpha)(m_prev - m~) + epsilon, with kappa, alpha and epsilon
       linear in h. With `temper`, m~ is first raised to the power 2 sigmoid(tau), tau linear in the mean of h over x.

    Beliefs: log b_i(x) = sum_a m + MLP3[sum_a h, its mean over x, sum_a m, mean over loops of delta]. All are functions
    of one state, of means over states and of sums over neighbours. Hence all three symmetries hold, and any arity and
    cardinality works. kappa, alpha, epsilon and MLP3 start at zero: untrained it is damped BP, corrected around short
    loops.

    With `settle` each change of m and h is scaled by min(1, T/t)^settle, so that both converge on any graph.
    """

    config_class = FENetConfig
    solver_class = FENetSolver
    hidden_axes = ("edge states", "states", None)

    def __init__(self, config: FENetConfig) -> None:
        super().__init__(config)
        C, Q, H = config.channels, config.tables, config.hidden
        self.channels, self.tables, self.hidden, self.context = C, Q, H, config.context
        double = 2 if config.context else 1  # With context, a hidden vector comes with its mean over states.
        self.mlp1 = mlp((double * C, H, C))
        if Q:
            self.mlp2 = mlp((double * C + 1, H, Q))
            # Tables at several temperatures, from flatter to sharper, and messages scaled alike.
            self.beta = nn.Parameter(spread(0.5, 2.0, Q))
            self.gamma = nn.Parameter(torch.ones(Q))
        self.loops = config.loops
        self.gru = nn.GRUCell(Q + 6 + config.loops + C, C)
        self.temper, self.settle = config.temper, config.settle
        self.out = nn.Linear(C, 2 + config.loops + config.temper)
        zero_(self.out)
        self.first_alpha = logit(config.damping)
        self.mlp3 = mlp((double * C + 1 + config.loops, H, H, 1 + config.temper), last_zero=True)

    def start(self, wiring: Wiring) -> NetworkState:
        """Return uniform messages and hidden vectors of zero."""
        state = self.plain_start(wiring)
        return state._replace(wiring=replace(state.wiring, fused=fuse(self, state.wiring)))

    def plain_start(self, wiring: Wiring) -> NetworkState:
        """Return the same as `start`, for steps in torch without fused kernels."""
        msg = wiring.uniform_messages()
        if self.loops:
            wiring = replace(wiring, loops=loops_of(wiring))
        h = msg.new_zeros(len(msg), self.channels)
        return NetworkState(wiring, msg, (h, torch.zeros_like(wiring.unary), msg.new_zeros(())))

    def step(self, state: NetworkState) -> NetworkState:
        """Do steps 1 to 7 of the class docstring."""
        if state.wiring.fused is not None and not torch.compiler.is_compiling():
            return fused_step(self, state.wiring.fused, state)
        wiring, old, (before, seen_by_states, t) = state.wiring, state.msg_fv, state.hidden
        msg_vf = wiring.outgoing(old)
        unscaled = wiring.reduce(msg_vf)
        raw = (old, unscaled, msg_vf, msg_vf + old, unscaled + msg_vf, wiring.unary_seen)
        log_p = wiring.normalize(torch.stack(raw, dim=1))
        new, sent = log_p[:, _NEW], log_p[:, _SENT]
        u = wiring.sum_of_others(self.mlp1(self._with_context(wiring, before)))
        seen = squash(log_p)
        parts = [seen, u]
        if self.tables:
            parts.append(self._through_tables(wiring, u, sent, seen[:, _SENT, None]))
        delta = torch.zeros_like(new)
        if wiring.loops is not None:
            delta, seen_by_states = wiring.loops.corrections(wiring, old, new)
            delta = wiring.centred(delta[:, None]).squeeze(1)
        if self.loops:
            parts.append(squash(delta)[:, None])
        h = self.gru(torch.cat(parts, dim=1), before)
        out = self.out(h)
        if wiring.loops is not None:
            new = new + delta * (1.0 + out[:, _KAPPA])
        if self.temper:
            new = _power(new, wiring.mean_over_states(out[:, -1:]).squeeze(1), wiring.has_zeros)
        msg = wiring.damp(new, old, (out[:, _ALPHA] + self.first_alpha).sigmoid())
        msg = msg + wiring.centred(out[:, _EPSILON, None]).squeeze(1)
        if self.settle:
            keep = 1.0 - settling(t + 1.0, self.config.steps, self.settle)
            msg, h = wiring.damp(msg, old, keep), torch.lerp(h, before, keep)
        return NetworkState(wiring, msg, (h, seen_by_states, t + 1.0))

    def _through_tables(self, wiring: Wiring, u: Tensor, sent: Tensor, seen: Tensor) -> Float[Tensor, "S2 Q"]:
        """Return the features that the other variables of the factor send through the table, at Q temperatures."""
        y = self.mlp2(torch.cat((self._with_context(wiring, u), seen), dim=1))
        log_phi = wiring.log_phi
        if wiring.has_zeros:  # Finite numbers replace zeros here. They are features and never become answers.
            log_phi, sent = log_phi.clamp_min(_LOWEST), sent.clamp_min(_LOWEST)
        y = y + sent[:, None] * self.gamma
        q = wiring.reduce(y, log_phi=log_phi[:, None] * self.beta)
        if wiring.kinds:  # A structured factor may exclude a state although no log value is -inf.
            q = q.clamp_min(_NOTHING)
        return squash(wiring.centred(q))

    def log_beliefs(self, state: NetworkState) -> Float[Tensor, " X"]:
        """Return the log beliefs of the messages, corrected by MLP3."""
        wiring, (h, loops, _) = state.wiring, state.hidden
        log_b = wiring.log_beliefs(state.msg_fv)
        total = wiring.to_states(h)
        parts = [total, _variable_normalized(wiring, log_b)]
        if self.context:
            parts.append(wiring.mean_of_variable(total))
        if self.loops:
            parts.append(squash(loops)[:, None])
        out = self.mlp3(torch.cat(parts, dim=1))
        if self.temper:
            log_b = _power(log_b, wiring.mean_of_variable(out[:, 1:]).squeeze(1), wiring.has_zeros)
        return log_b + out[:, 0]

    def _with_context(self, wiring: Wiring, hidden: Tensor) -> Tensor:
        """Return hidden vectors, followed by their mean over the states of the edge if `context` is set."""
        return wiring.with_mean(hidden) if self.context else hidden


def _power(log_values: Tensor, gate: Tensor, zeros: bool) -> Tensor:
    """Raise values to the power 2 sigmoid(gate), which is 1 at 0; a true zero stays zero and passes no gradient."""
    power = 2.0 * gate.sigmoid()
    if not zeros:
        return power * log_values
    zero = torch.isneginf(log_values)
    return torch.where(zero, -torch.inf, power * torch.where(zero, 0.0, log_values))


def _variable_normalized(wiring: Wiring, log_b: Tensor) -> Tensor:
    """Return [X, 1] the log beliefs, normalised over the states of each variable and squashed."""
    scale = segment_logsumexp(log_b.detach(), wiring.var_of_state, wiring.num_vars)
    scale = torch.where(torch.isneginf(scale), 0.0, scale)
    return squash(log_b - scale[wiring.var_of_state])[:, None]
