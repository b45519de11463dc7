"""FE-NBP in NumPy. The class `FENBP` in torch states what a step computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equifactor.solvers.learned.native.native_layers import (
    Mlp,
    Weights,
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
_SLOPE = np.float32(0.01)  # The slope of a leaky ReLU below zero, the default of torch.
_NORM_LEAST = 1e-5  # Added to variances that are divided by, as in torch.


class FENBPState(NamedTuple):
    """Messages [S2] in double precision, and the number of steps."""

    msg_fv: FloatArray
    steps: float


class NativeFENBP:
    """The network with its weights, prepared for one batch."""

    axes = ("edge states", None)

    def __init__(self, config: FENBPConfig, weights: Weights) -> None:
        self.config = config
        self.features = config.features.split("+")
        self.first, second = ((weights[f"{name}.weight"], weights[f"{name}.bias"]) for name in ("first", "second"))
        self.layers, self.second = Mlp([self.first, second]), Mlp([second])
        self.last, self.last_bias = weights["last.weight"], float(weights["last.bias"][0])
        self.norms = [
            [weights[f"norms.{n}.{name}"][:, None] for name in ("scale", "shift")] for n in range(2 * config.norm)
        ]
        self.first_alpha = logit(config.damping) if config.bounded else config.damping
        self.whole = Mlp.of(weights, "whole", 2) if config.context else None

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
            change = self.graphs.mean(np.abs(np.exp(new) - np.exp(np.minimum(old, 0.0)))[None].astype(np.float32))
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
        graphs, whole, (first, bias) = self.graphs, None, self.first
        compiled = self.wiring.compiled
        if self.norms or moved is not None:
            # The mean and variance of the first layer follow from those of the features.
            mean, covariance = graphs.moments(seen)
            mean = first @ mean + bias[:, None]
            variance = np.maximum(np.einsum("hi,hj,ijg->hg", first, first, covariance, optimize=True), 0.0)
            if self.whole is not None:
                spread = 0.5 * np.log(variance + _LEAST)
                whole = self.whole(np.concatenate((moved, mean, spread)).astype(np.float32), False)
        if not self.norms:
            hidden = self.layers(seen, compiled)
            scale = np.ones((len(bias), graphs.count), np.float32)
            shift = np.zeros_like(scale)
        else:
            scale, shift = self._norm(0, mean - bias[:, None], variance)
            if graphs.count == 1:
                hidden = self.layers.with_first(scale * first, shift[:, 0])(seen, compiled)
            else:
                hidden = first @ seen
                graphs.affine(hidden, scale, shift, _SLOPE)
                hidden = self.second(hidden, compiled)
            mean = graphs.mean(hidden)
            scale, shift = self._norm(1, mean, graphs.variance(hidden, mean))
        if whole is not None:  # Added after the norms, which would remove it.
            shift = shift + whole
        graphs.affine(hidden, scale, shift, _SLOPE)
        if self.config.alpha == "edge":
            hidden = self.wiring.log_total(hidden, True)
        out = (self.last @ hidden)[0].astype(np.float64) + (self.last_bias + self.first_alpha)
        return sigmoid(out) if self.config.bounded else out

    def _norm(self, n: int, mean: Any, variance: Any) -> tuple[Any, Any]:
        """Return the numbers [H, G] that normalise channels over each graph, then scale and shift them."""
        scale, shift = self.norms[n]
        scale = scale / np.sqrt(variance + _NORM_LEAST)
        return scale.astype(np.float32), (shift - mean * scale).astype(np.float32)

    def log_beliefs(self, state: FENBPState) -> FloatArray:
        """Return the log beliefs [X] of the messages."""
        return self.wiring.log_beliefs(state.msg_fv)


class _GraphMeans:
    """Means over the edge states of each graph; graphs of a batch never mix."""

    def __init__(self, wiring: NativeWiring) -> None:
        self.graph, self.count, self.wiring = wiring.graph, wiring.flat.num_graphs, wiring
        self.share = 1.0 / np.maximum(np.bincount(self.graph, minlength=self.count), 1)  # [G]
        ends = np.flatnonzero(np.diff(self.graph)) + 1
        self.starts = np.concatenate(([0], ends, [len(self.graph)]))  # of stretches of edge states of one graph
        self.owner = self.graph[self.starts[:-1]] if len(self.graph) else np.zeros(0, np.int64)

    def mean(self, values: Any) -> Any:
        """Return [H, G] the means of values [H, S2], in double precision."""
        return self._mean(values, None)

    def variance(self, values: Any, mean: Any) -> Any:
        """Return [H, G] the mean squared distance from the mean [H, G]."""
        return self._mean(values, mean)

    def _mean(self, values: Any, center: Any) -> Any:
        if not len(self.graph):
            return np.zeros((len(values), self.count))
        if self.wiring.compiled:
            from equifactor.solvers.learned.native.network_kernels import graph_means

            out = np.zeros((len(values), self.count))
            middle = None if center is None else center.ravel()
            graph_means(values.ravel(), values.shape[1], self.starts, self.owner, self.share, middle, out.ravel())
            return out
        if center is not None:
            values = np.square(values - self._spread(center))
        if self.count == 1:
            return values.mean(axis=1, keepdims=True, dtype=np.float64)
        return np.stack([np.bincount(self.graph, row, self.count) for row in values]) * self.share

    def moments(self, values: Any) -> tuple[Any, Any]:
        """Return the means [H, G] and covariances [H, H, G] of values [H, S2]."""
        mean = self.mean(values)
        centred = values.astype(np.float64) - self._spread(mean)
        if self.count == 1:
            return mean, (centred @ centred.T * self.share)[..., None]
        count, size = values.shape
        products = (centred[:, None] * centred).reshape(count * count, size)
        return mean, self.mean(products.astype(np.float32)).reshape(count, count, -1)

    def affine(self, values: Any, scale: Any, shift: Any, slope: np.float32) -> None:
        """Multiply and shift values [H, S2] by those of their graph [H, G], then take max(x, slope x), in place."""
        if self.wiring.compiled and len(self.graph):
            from equifactor.solvers.learned.native.network_kernels import graph_affine

            sizes = values.shape[1], self.starts, self.owner
            graph_affine(values.ravel(), *sizes, scale.ravel(), shift.ravel(), slope)
            return
        values *= self._spread(scale)
        values += self._spread(shift)
        np.maximum(values, values * slope, out=values)

    def _spread(self, of_graph: Any) -> Any:
        return of_graph if self.count == 1 else of_graph[:, self.graph]
