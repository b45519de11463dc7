"""FE-GNN in NumPy. The class `FEGNN` in torch states what a step computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.solvers.learned.native.native_layers import Gru, Mlp, Weights, gru_shapes, mlp_shapes, settling, squash
from equifactor.solvers.learned.native.native_tables import NativeTables, reduced
from equifactor.solvers.learned.native.native_wiring import SumsByOwner

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.solvers.learned.fe_gnn_solver import FEGNNConfig
    from equifactor.solvers.learned.native.native_wiring import NativeWiring

_CLAMP = np.float32(30.0)  # The GRU sees larger log messages as this value, as in torch.


class FEGNNState(NamedTuple):
    """Messages [S2], hidden states [D, E] of both directions, and the number of steps."""

    msg_fv: FloatArray
    hidden_vf: Any
    hidden_fv: Any
    steps: float


class NativeFEGNN:
    """The network with its weights, prepared for one batch."""

    axes = ("edge states", "edges", "edges", None)

    def __init__(self, config: FEGNNConfig, weights: Weights) -> None:
        self.config = config
        D, X = config.channels, config.card
        self.sees_bp = config.features == "bp"
        self.mlps = {name: Mlp.of(weights, name, 3, slope=0.0) for name in ("mlp1", "mlp2", "mlp3")}
        hidden: list[int | None] = [*(-1 - c for c in range(D)), None]
        self.gru1 = Gru(weights, "gru1", hidden + list(range(D)))
        self.gru2 = Gru(weights, "gru2", hidden + list(range(X)))

    @staticmethod
    def shapes(config: FEGNNConfig) -> dict[str, tuple[int, ...]]:
        """Return the shape of every weight of a network with these settings."""
        D, H, X = config.channels, config.hidden, config.card
        given = D + (X if config.features == "bp" else 0)
        found = mlp_shapes("mlp1", (given, H, H, D)) | mlp_shapes("mlp2", (given, H, H, X))
        found |= gru_shapes("gru1", D, D) | gru_shapes("gru2", X, D)
        return found | mlp_shapes("mlp3", (D, H, H, X))

    def start(self, wiring: NativeWiring) -> FEGNNState:
        """Prepare the batch, and return hidden states of zero and uniform messages."""
        flat, self.wiring = wiring.flat, wiring
        self.edges = SumsByOwner(flat.var_of_edge, flat.num_vars)
        self.groups = [(g.edges, _without_scale(g.table(flat.log_phi))) for g in flat.groups]
        if self.sees_bp:
            self.tables = NativeTables(wiring, flat.log_phi)
        zeros = np.zeros((self.config.channels, flat.num_edges), np.float32)
        return FEGNNState(wiring.uniform_messages(), zeros, zeros, 0.0)

    def step(self, state: FEGNNState) -> FEGNNState:
        """Update the hidden states from variables to factors, then from factors to variables."""
        wiring, t, msg, card = self.wiring, state.steps + 1.0, state.msg_fv, self.config.card
        all_messages = wiring.messages(msg) if self.sees_bp else None
        sent = self.edges.of_others(self.mlps["mlp1"](self._seen(state.hidden_fv, all_messages), wiring.compiled))
        h_vf = self._moved(state.hidden_vf, self._gru(self.gru1, sent, state.hidden_vf), t)
        others = None
        if all_messages is not None:
            others = _sum_of_other_factors(wiring, all_messages)
            new = wiring.normalize(self.tables.messages(wiring.outgoing(msg)))
            msg = wiring.damp(new, msg, 0.5)
        y = self.mlps["mlp2"](self._seen(h_vf, others), wiring.compiled)
        out = np.empty_like(y)  # [card, E]
        for edges, table in self.groups:
            if edges:
                found = reduced(table, [y[:, e] for e in edges], "max" if wiring.is_max else "sum")
                for e, values in zip(edges, found, strict=True):
                    out[:, e] = values
        h_fv = self._gru(self.gru2, np.clip(out, -_CLAMP, _CLAMP), state.hidden_fv)
        if not self.sees_bp:
            # The output of the tables is a log message like any other. Bounds are computed from it.
            msg = wiring.normalize(out.T.ravel()[wiring.place].astype(np.float64)) if card else msg
        return FEGNNState(msg, h_vf, self._moved(state.hidden_fv, h_fv, t), t)

    def _gru(self, gru: Gru, given: Any, hidden: Any) -> Any:
        return gru(np.concatenate((hidden, np.ones_like(hidden[:1]), given)), self.wiring.compiled)

    def _moved(self, before: Any, after: Any, t: float) -> Any:
        """Return `after`, or with `settle` a mean of `before` and `after` that moves less with every step."""
        if not self.config.settle or t <= self.config.steps:
            return after
        return before + np.float32(settling(t, self.config.steps, self.config.settle)) * (after - before)

    def _seen(self, hidden: Any, msg: FloatArray | None) -> Any:
        """Return [D + card, E] hidden states beside the messages of belief propagation, if there are any."""
        if msg is None:
            return hidden
        return np.concatenate((hidden, squash(msg.reshape(-1, self.config.card).T.astype(np.float32, order="C"))))

    def log_beliefs(self, state: FEGNNState) -> FloatArray:
        """Return MLP3 of the sum of the incoming hidden states [X]; impossible states stay impossible."""
        out = self.mlps["mlp3"](self.edges.of(state.hidden_fv), self.wiring.compiled).T.ravel().astype(np.float64)
        if not self.wiring.has_zeros:
            return out
        return np.where(np.isneginf(self.wiring.log_beliefs(state.msg_fv)), -np.inf, out)


def _without_scale(table: FloatArray) -> Any:
    """Return log tables [d1, .., dk, F] from [F, d1, .., dk], each minus the mean of its possible entries."""
    rows = table.reshape(len(table), -1)
    possible = ~np.isneginf(rows)
    mean = np.where(possible, rows, 0.0).sum(1) / np.maximum(possible.sum(1), 1)
    return (np.moveaxis(table, 0, -1) - mean).astype(np.float32, order="C")


def _sum_of_other_factors(wiring: NativeWiring, msg_fv: FloatArray) -> FloatArray:
    """Return variable-to-factor messages [S] in flat order, unary factors included."""
    state, count = wiring.flat.state_of_edge_state, wiring.flat.num_states
    zero = np.isneginf(msg_fv)
    finite_msg = np.where(zero, 0.0, msg_fv)
    others = np.bincount(state, finite_msg, count)[state] - finite_msg
    return np.where(np.bincount(state, zero, count)[state] - zero > 0.5, -np.inf, others)
