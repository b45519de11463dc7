"""FE-NBP in NumPy. The class `FENBP` in torch states what a step computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.solvers.learned.native.native_layers import (
    Mlp,
    Weights,
    leaky_relu,
    linear_shapes,
    logit,
    mlp_shapes,
    settling,
    sigmoid,
    squash,
)
from equifactor.solvers.learned.native.native_tables import NativeTables
from equifactor.solvers.learned.native.native_wiring import finite

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray
    from equifactor.solvers.learned.fe_nbp_solver import FENBPConfig
    from equifactor.solvers.learned.native.native_wiring import NativeWiring

_LEAST = 1e-6  # Added to changes and variances, so that their logarithms stay finite, as in torch.
_NORM_LEAST = 1e-5  # Added to variances that are divided by, as in torch.


class FENBPState(NamedTuple):
    """Messages [S2] in double precision, and the number of steps."""

    msg_fv: FloatArray
    steps: float


class NativeFENBP:
    """The network with its weights, prepared for one batch."""

    axes = ("edge states", None)

    def __init__(self, config: FENBPConfig, weights: Weights) -> None:
        self.config, self.weights = config, weights
        self.features = config.features.split("+")
        self.bias = {name: weights[f"{name}.bias"][:, None] for name in ("first", "second", "last")}
        self.norms = [[weights[f"norms.{n}.{name}"][:, None] for name in ("scale", "shift")] for n in range(2 * config.norm)]
        self.first_alpha = logit(config.damping) if config.bounded else config.damping
        self.whole = Mlp(weights, "whole", 2) if config.context else None

    @staticmethod
    def shapes(config: FENBPConfig) -> dict[str, tuple[int, ...]]:
        """Return the shape of every weight of a network with these settings."""
        H = config.hidden
        found = linear_shapes("first", len(config.features.split("+")), H)
        found |= linear_shapes("second", H, H) | linear_shapes("last", H, 1)
        if config.norm:
            found |= {f"norms.{n}.{name}": (H,) for n in range(2) for name in ("scale", "shift")}
        return found | (mlp_shapes("whole", (2 + 2 * H, H, H)) if config.context else {})

    def start(self, wiring: NativeWiring) -> FENBPState:
        """Prepare the batch, and return uniform messages."""
        both = "factor-max" in self.features or (wiring.is_max and "factor-sum" in self.features)
        self.wiring, self.tables = wiring, NativeTables(wiring, wiring.flat.log_phi, both=both)
        self.graphs = _GraphMeans(wiring)
        return FENBPState(wiring.uniform_messages(), 0.0)

    def step(self, state: FENBPState) -> FENBPState:
        """Run one damped step of belief propagation; the network chooses the damping."""
        wiring, config, old, t = self.wiring, self.config, state.msg_fv, state.steps + 1.0
        msg_vf = wiring.outgoing(old)
        unscaled = self.tables.messages(msg_vf)
        new = wiring.normalize(unscaled)
        moved = None
        if self.whole is not None:
            change = self.graphs.mean(np.abs(np.exp(new) - np.exp(np.minimum(old, 0.0)))[None])
            moved = np.concatenate((np.full_like(change, np.log(t)), np.log(change + _LEAST)))
        damping = self._damping(self._see(old, new, msg_vf, unscaled), moved)
        if config.settle:
            damping = 1.0 - (1.0 - damping) * settling(t, config.steps, config.settle)
        return FENBPState(wiring.damp(new, old, damping), t)

    def _see(self, old: FloatArray, new: FloatArray, msg_vf: FloatArray, unscaled: FloatArray) -> Any:
        """Return the features of each edge state [features, S2], in the log and squashed."""
        wiring = self.wiring
        seen = {"old": old, "new": new}
        if "variable" in self.features:
            seen["variable"] = wiring.normalize(msg_vf + old)
        if {"factor-sum", "factor-max"} & set(self.features):
            total = self.tables.messages(msg_vf, False) if wiring.is_max else unscaled
            log_z = finite(wiring.log_total(total + msg_vf, False))
            seen["factor-sum"] = total + msg_vf - log_z
            if "factor-max" in self.features:
                best = unscaled if wiring.is_max else self.tables.messages(msg_vf, True)
                seen["factor-max"] = best + msg_vf - log_z
        return squash(np.stack([seen[name] for name in self.features]).astype(np.float32))

    def _damping(self, seen: Any, moved: Any) -> FloatArray:
        """Return alpha for each edge state, or one alpha per edge."""
        weights, graphs, whole = self.weights, self.graphs, None
        hidden = weights["first.weight"] @ seen
        hidden += self.bias["first"]
        if self.norms or moved is not None:
            mean = graphs.mean(hidden)
            centred = hidden if moved is None or self.norms else hidden.copy()
            graphs.add(centred, -mean)
            variance = graphs.mean(np.square(centred))
            if self.whole is not None:
                spread = 0.5 * np.log(variance + np.float32(_LEAST))
                whole = self.whole(np.concatenate((moved.astype(np.float32), mean, spread)))
            if self.norms:
                self._scale(hidden, variance, 0)
        hidden = weights["second.weight"] @ leaky_relu(hidden)
        hidden += self.bias["second"]
        if self.norms:
            graphs.add(hidden, -graphs.mean(hidden))
            self._scale(hidden, graphs.mean(np.square(hidden)), 1)
        if whole is not None:  # Added after the norms, which would remove it.
            graphs.add(hidden, whole)
        leaky_relu(hidden)
        if self.config.alpha == "edge":
            hidden = self.wiring.log_total(hidden, True)
        out = (weights["last.weight"] @ hidden)[0].astype(np.float64) + (float(self.bias["last"][0, 0]) + self.first_alpha)
        return sigmoid(out) if self.config.bounded else out

    def _scale(self, centred: Any, variance: Any, n: int) -> None:
        """Normalise centred channels to variance 1 over each graph, in place, then scale and shift them."""
        scale, shift = self.norms[n]
        self.graphs.multiply(centred, scale / np.sqrt(variance + np.float32(_NORM_LEAST)))
        centred += shift

    def log_beliefs(self, state: FENBPState) -> FloatArray:
        """Return the log beliefs [X] of the messages."""
        return self.wiring.log_beliefs(state.msg_fv)


class _GraphMeans:
    """Means over the edge states of each graph; graphs of a batch never mix."""

    def __init__(self, wiring: NativeWiring) -> None:
        self.graph, self.count = wiring.graph, wiring.flat.num_graphs
        size = np.bincount(self.graph, minlength=self.count)
        self.share = (1.0 / np.maximum(size, 1)).astype(np.float32)
        # A matrix product with zeros and ones is faster than gathering columns.
        self.member = (self.graph == np.arange(self.count)[:, None]).astype(np.float32)  # [G, S2]

    def mean(self, values: Any) -> Any:
        """Return [H, G] the means of values [H, S2]."""
        sums = values @ self.member.T.astype(values.dtype, copy=False)
        if self.count > 1 and not np.isfinite(sums).all():  # Zero times NaN is NaN, for all graphs.
            sums = np.stack([np.bincount(self.graph, row, self.count) for row in values]).astype(values.dtype)
        return sums * self.share

    def add(self, values: Any, of_graph: Any) -> None:
        """Add to values [H, S2] those of their graph [H, G]."""
        values += self._spread(of_graph)

    def multiply(self, values: Any, of_graph: Any) -> None:
        """Multiply values [H, S2] by those of their graph [H, G]."""
        values *= self._spread(of_graph)

    def _spread(self, of_graph: Any) -> Any:
        if self.count == 1:
            return of_graph
        return of_graph @ self.member if np.isfinite(of_graph).all() else of_graph[:, self.graph]
