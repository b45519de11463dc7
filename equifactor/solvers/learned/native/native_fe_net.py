"""FE-Net in NumPy. The class `FENet` in torch states what a step computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.solvers.learned.native.native_layers import (
    Gru,
    MeanMlp,
    Mlp,
    Weights,
    gru_shapes,
    linear_shapes,
    logit,
    mlp_shapes,
    settling,
    sigmoid,
    squash,
)
from equifactor.solvers.learned.native.native_loops import NativeLoops, loops_of
from equifactor.solvers.learned.native.native_tables import NativeTables
from equifactor.solvers.learned.native.native_wiring import NativeWiring, finite

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.solvers.learned.fe_net_solver import FENetConfig

_LOWEST = -1e3  # Features show a true zero as this log value, as in torch.
_NOTHING = -1e8  # Lower limit of the log values that pass through a structured factor, as in torch.
_SENT = 2  # The place of m_{i->a} among the six log messages in `weight_ih`.


class FENetState(NamedTuple):
    """Messages [S2] in double precision, hidden vectors [C, S2], mean corrections [X] and the number of steps."""

    msg_fv: FloatArray
    hidden: Any
    loops: FloatArray
    steps: float


class NativeFENet:
    """The network with its weights, prepared for one batch."""

    axes = ("edge states", "edge states", "states", None)

    def __init__(self, config: FENetConfig, weights: Weights) -> None:
        self.config = config
        C, Q = config.channels, config.tables
        means = C if config.context else 0
        first, last = weights["mlp1.0.weight"], weights["mlp1.2.weight"]
        self.mlp1 = MeanMlp(first[:, :C], first[:, C : C + means], weights["mlp1.0.bias"], last, weights["mlp1.2.bias"])
        if Q:
            first, last = weights["mlp2.0.weight"], weights["mlp2.2.weight"]
            own = np.concatenate((first[:, :C], first[:, -1:]), axis=1)
            self.mlp2 = MeanMlp(own, first[:, C : C + means], weights["mlp2.0.bias"], last, weights["mlp2.2.bias"])
            self.beta, self.gamma = weights["beta"].astype(np.float64), weights["gamma"][:, None]
        # Rows of the input of the GRU: h, ones, u, m_{i->a}, the other log messages, q, delta. MLP1 reads h, MLP2 u and
        # m_{i->a}. In `weight_ih` the order is log messages, u, q, delta.
        seen = [_SENT, *(n for n in range(6) if n != _SENT)]
        order: list[int | None] = [*(-1 - c for c in range(C)), None, *range(6, 6 + C), *seen]
        self.gru = Gru(weights, "gru", order + [6 + C + n for n in range(Q + config.loops)])
        self.rows_u, self.rows_seen = slice(C + 1, 2 * C + 1), slice(2 * C + 1, 2 * C + 7)
        self.rows_q, self.num_rows = slice(2 * C + 7, 2 * C + 7 + Q), 2 * C + 7 + Q + config.loops
        self.out, self.out_bias = weights["out.weight"], weights["out.bias"][:, None].astype(np.float64)
        self.first_alpha = logit(config.damping)
        self.mlp3 = Mlp.of(weights, "mlp3", 3)
        # Without weights in its last layers the network is BP with loop corrections, whatever its hidden vectors are.
        last_layers = ("out.weight", "out.bias", "mlp3.4.weight", "mlp3.4.bias")
        self.is_silent = not any(weights[name].any() for name in last_layers)

    @staticmethod
    def shapes(config: FENetConfig) -> dict[str, tuple[int, ...]]:
        """Return the shape of every weight of a network with these settings."""
        C, Q, H = config.channels, config.tables, config.hidden
        double = 2 if config.context else 1
        found = mlp_shapes("mlp1", (double * C, H, C))
        if Q:
            found |= {**mlp_shapes("mlp2", (double * C + 1, H, Q)), "beta": (Q,), "gamma": (Q,)}
        found |= gru_shapes("gru", Q + 6 + config.loops + C, C)
        found |= linear_shapes("out", C, 2 + config.loops + config.temper)
        return found | mlp_shapes("mlp3", (double * C + 1 + config.loops, H, H, 1 + config.temper))

    def start(self, wiring: NativeWiring) -> FENetState:
        """Prepare the batch, and return uniform messages and hidden vectors of zero."""
        log_phi, size = wiring.flat.log_phi, len(wiring.state)
        self.wiring, self.tables = wiring, NativeTables(wiring, log_phi)
        self.loops: NativeLoops | None = loops_of(wiring) if self.config.loops else None
        hidden = np.zeros((self.config.channels, size), np.float32)
        first = FENetState(wiring.uniform_messages(), hidden, np.zeros(wiring.flat.num_states), 0.0)
        # Kernels take 16 columns at once.
        self.is_fast = wiring.compiled and not wiring.has_zeros and all(rows.num >= 16 for rows in wiring.rows)
        if self.is_silent:
            self.silence = np.zeros((len(self.out), size), np.float32)
            return first
        if self.config.tables:  # Finite numbers replace zeros here. They are features and never become answers.
            bounded = np.maximum(log_phi, _LOWEST) if wiring.has_zeros else log_phi
            self.warm_tables = NativeTables(wiring, self.beta[:, None] * bounded, np.float32)
        self.input = np.zeros((self.num_rows, size), np.float32)
        self.input[self.config.channels] = 1.0
        self.input[self.rows_seen][-1] = squash(wiring.normalize(wiring.unary_seen).astype(np.float32))
        return first

    def step(self, state: FENetState) -> FENetState:
        """Do one step; the numbers are those of the docstring of `FENet`."""
        config, wiring = self.config, self.wiring
        old, before = state.msg_fv, state.hidden
        msg_vf = wiring.outgoing(old)  # 1
        unscaled = self.tables.messages(msg_vf)
        new = wiring.normalize(unscaled)
        delta: Any = None
        loops = state.loops
        if self.loops is not None:  # 5
            delta, loops = self.loops.corrections(old, new)
            wiring.center(delta)
        h = before if self.is_silent else self._next_hidden(before, old, new, msg_vf, unscaled, delta)
        out = self.silence if self.is_silent else self.out @ h
        msg = self._next_messages(out, new, old, delta)  # 7
        if config.settle and (wiring.has_zeros or state.steps >= config.steps):
            keep = 1.0 - settling(state.steps + 1.0, config.steps, config.settle)
            msg = wiring.damp(msg, old, keep)
            h = h + np.float32(keep) * (before - h)
        return FENetState(msg, h, loops, state.steps + 1.0)

    def _next_hidden(
        self, before: Any, old: FloatArray, new: FloatArray, msg_vf: FloatArray, unscaled: FloatArray, delta: Any
    ) -> Any:
        """Return the hidden vectors [C, S2] after a step (2 to 6)."""
        wiring, x = self.wiring, self.input
        sent = self._see(old, new, msg_vf, unscaled)
        x[: self.config.channels] = before
        wiring.sums.of_others(self.mlp1(wiring, before), x[self.rows_u])  # 2
        if self.config.tables:
            self._through_tables(sent)
        if delta is not None:
            x[-1] = delta
            squash(x[-1])
        return self.gru(x, wiring.compiled)  # 6

    def _see(self, old: FloatArray, new: FloatArray, msg_vf: FloatArray, unscaled: FloatArray) -> Any:
        """Set the log messages that the network sees; return m_{i->a} [S2], normalised."""
        wiring, seen = self.wiring, self.input[self.rows_seen][:-1]
        if self.is_fast:
            from equifactor.solvers.learned.native.step_kernels import see

            sent = np.empty(len(old), np.float32)
            for rows in wiring.rows:
                see(msg_vf, old, new, unscaled, *rows, wiring.is_max, len(old), sent, seen.ravel())
            return sent
        raw = np.stack((msg_vf, old, new, msg_vf + old, unscaled + msg_vf))
        raw -= finite(wiring.log_total(raw, True))
        log_p = raw.astype(np.float32)
        if not wiring.is_max:
            log_p -= finite(wiring.log_total(log_p, False))
        sent = log_p[0].copy()
        seen[:] = squash(log_p)
        return sent

    def _next_messages(self, out: Any, new: FloatArray, old: FloatArray, delta: FloatArray | None) -> FloatArray:
        """Return corrected and damped messages, from alpha, epsilon, kappa and tau in the rows of `out`."""
        wiring, bias = self.wiring, self.out_bias
        if self.is_fast:
            from equifactor.solvers.learned.native.step_kernels import update

            msg = np.empty_like(new)
            given = out.ravel(), bias.ravel(), old if delta is None else delta
            for rows in wiring.rows:
                which = delta is not None, self.config.temper
                update(*given, *which, new, old, self.first_alpha, *rows, len(new), msg)
            return msg
        out = out.astype(np.float64) + bias
        if delta is not None:
            new = new + delta * (1.0 + out[2])
        if self.config.temper:
            new = _power(new, wiring.mean_over_states(out[-1]), wiring.has_zeros)
        msg = wiring.damp(new, old, sigmoid(out[0] + self.first_alpha))
        wiring.center(out[1])
        msg += out[1]
        return msg

    def _through_tables(self, sent: Any) -> None:
        """Set the features that the other variables of the factor send through the table, at Q temperatures (3, 4)."""
        wiring = self.wiring
        y = self.mlp2(wiring, self.input[self.rows_u.start : self.rows_seen.start + 1])
        if wiring.has_zeros:
            np.maximum(sent, np.float32(_LOWEST), out=sent)
        y += self.gamma * sent
        if self.is_fast and self.warm_tables.put_pair_features(y, self.input[self.rows_q]):
            return
        q = self.warm_tables.messages(y)
        if wiring.flat.structured:  # A noisy-or whose causes surely fail excludes a state by itself.
            np.maximum(q, np.float32(_NOTHING), out=q)
        wiring.center(q)
        self.input[self.rows_q] = squash(q)

    def log_beliefs(self, state: FENetState) -> FloatArray:
        """Return the log beliefs [X] of the messages, corrected by MLP3."""
        flat, config = self.wiring.flat, self.config
        log_b = self.wiring.log_beliefs(state.msg_fv)
        if self.is_silent:
            return log_b
        total = self.wiring.sums.of(state.hidden)
        scale = _log_sums(flat, log_b)
        parts = [total, squash((log_b - finite(scale)[flat.var_of_state]).astype(np.float32))[None]]
        if config.context:
            parts.append(_means(flat, total))
        if config.loops:
            parts.append(squash(state.loops.astype(np.float32))[None])
        out = self.mlp3(np.concatenate(parts), self.wiring.compiled).astype(np.float64)
        if config.temper:
            log_b = _power(log_b, _means(flat, out[1:])[0], self.wiring.has_zeros)
        return log_b + out[0]


def _power(log_values: FloatArray, gate: FloatArray, zeros: bool) -> FloatArray:
    """Raise values to the power 2 sigmoid(gate), which is 1 at 0; a true zero stays zero."""
    power = 1.0 + np.tanh(0.5 * gate)
    if not zeros:
        return power * log_values
    zero = np.isneginf(log_values)
    return np.where(zero, -np.inf, power * np.where(zero, 0.0, log_values))


def _log_sums(flat: Any, log_b: FloatArray) -> FloatArray:
    """Return [V] ln of the sum over the states of each variable."""
    if not flat.num_vars:
        return np.zeros(0)
    top = finite(np.maximum.reduceat(log_b, flat.var_ptr[:-1]))
    weight = np.exp(log_b - top[flat.var_of_state])
    return np.log(np.add.reduceat(weight, flat.var_ptr[:-1])) + top


def _means(flat: Any, values: Any) -> Any:
    """Return [.., X] the mean over the states of the same variable, repeated for each state."""
    if not flat.num_vars:
        return values
    card = np.diff(flat.var_ptr)
    if (card == card[0]).all():
        rows = values.reshape(*values.shape[:-1], -1, card[0])
        total = rows[..., 0].copy()
        for x in range(1, int(card[0])):
            total += rows[..., x]
        return np.repeat(total / values.dtype.type(card[0]), card[0], axis=-1)
    sums = np.add.reduceat(values, flat.var_ptr[:-1], axis=-1)
    sums /= card.astype(values.dtype)
    return sums[..., flat.var_of_state]
