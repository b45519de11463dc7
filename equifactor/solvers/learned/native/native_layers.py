"""Layers of the native networks. Inputs and outputs are [channels, columns], and a layer is one matrix product."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from equifactor.solvers.learned.native.native_wiring import NativeWiring

Weights = dict[str, Any]  # The tensors of a model file by name, float32.
_ZERO = np.float32(1e4)  # A network sees a true zero as a log probability of -10,000, as in `layers.squash`.
_SLOPE = np.float32(0.01)  # The slope of a leaky ReLU below zero, the default of torch.


def squash(log_values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Set values to arsinh(x) in place, which is what a network sees of a log message, and return them."""
    np.clip(log_values, -_ZERO, _ZERO, out=log_values)
    return np.arcsinh(log_values, out=log_values)


def sigmoid(values: Any) -> Any:
    """Return the logistic function, by tanh, which does not overflow."""
    return 0.5 * np.tanh(0.5 * values) + 0.5


def logit(probability: float) -> float:
    """Return the inverse of the logistic function, at least -39, where the logistic function is 0 up to rounding."""
    p = min(max(probability, 1e-17), 1 - 1e-16)
    return math.log(p / (1 - p))


def settling(t: float, trained: int, power: float) -> float:
    """Return the factor that scales changes in step t: 1 in the T steps a network is trained for, then (T/t)^power."""
    return min(1.0, trained / t) ** power


def leaky_relu(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return max(x, 0.01 x), computed in place."""
    return np.maximum(values, values * _SLOPE, out=values)


def relu(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return max(x, 0), computed in place."""
    return np.maximum(values, np.float32(0.0), out=values)


def linear_shapes(name: str, given: int, wanted: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of one linear layer, as torch names them."""
    return {f"{name}.weight": (wanted, given), f"{name}.bias": (wanted,)}


def mlp_shapes(name: str, sizes: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of an `mlp`, whose activations have numbers too."""
    found: dict[str, tuple[int, ...]] = {}
    for n in range(len(sizes) - 1):
        found |= linear_shapes(f"{name}.{2 * n}", sizes[n], sizes[n + 1])
    return found


def gru_shapes(name: str, given: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of a GRU cell."""
    rows = 3 * hidden
    return {
        f"{name}.weight_ih": (rows, given), f"{name}.weight_hh": (rows, hidden),
        f"{name}.bias_ih": (rows,), f"{name}.bias_hh": (rows,),
    }  # fmt: skip


class Mlp:
    """Linear layers with activations between them."""

    def __init__(self, weights: Mapping[str, Any], name: str, count: int, activation: Any = leaky_relu) -> None:
        self.layers = [
            (weights[f"{name}.{2 * n}.weight"], weights[f"{name}.{2 * n}.bias"][:, None]) for n in range(count)
        ]
        self.activation = activation

    def __call__(self, values: Any) -> Any:
        """Return the output of the last layer."""
        for n, (weight, bias) in enumerate(self.layers):
            values = weight @ (self.activation(values) if n else values)
            values += bias
        return values


class MeanMlp:
    """A network of two layers that sees values of a state and means over the states of its edge.

    Its input [K, S2] ends with a row of ones for the bias, and the first `num_mean` of its rows have means as well. Of
    two states the network computes W sum/2 and W difference/2, which takes half of the multiplications.
    """

    def __init__(self, own: Any, mean: Any, bias: Any, last: Any, last_bias: Any) -> None:
        H, K = own.shape
        self.own = np.zeros((H, K + 1), np.float32)
        self.own[:, :K] = own
        self.mean = np.zeros((H, K + 1), np.float32)
        self.mean[:, : mean.shape[1]] = mean
        self.mean[:, K] = bias
        self.sum = np.ascontiguousarray(0.5 * (self.own + self.mean))
        self.difference = np.ascontiguousarray(0.5 * self.own)
        self.last, self.bias = np.ascontiguousarray(last), last_bias[:, None].astype(np.float32)
        self.hidden = np.zeros(0, np.float32)  # Memory for the hidden layer, which is used again in every step.

    def __call__(self, wiring: NativeWiring, values: Any, out: Any) -> Any:
        """Set `out` [H', S2] from the input [K + 1, S2], and return it."""
        H = len(self.own)
        for rows in wiring.rows:
            given, found = rows.of(values), rows.of(out)
            step = max(1, _COLUMNS // rows.card)
            if self.hidden.size < 2 * H * rows.card * min(step, rows.count):
                self.hidden = np.empty(2 * H * rows.card * min(step, rows.count), np.float32)
            for start in range(0, rows.count, step):
                columns = slice(start, min(start + step, rows.count))
                self._block(given[:, :, columns], found[:, :, columns])
        return out

    def _block(self, given: Any, found: Any) -> None:
        """Compute some columns [K + 1, d, n] of one cardinality."""
        H, d, n = len(self.own), *given.shape[1:]
        hidden, other = self.hidden[: 2 * H * d * n].reshape(2, H, d, n)
        if d == 2:
            both, apart = other.reshape(2, H, n)  # `other` is only memory here.
            np.matmul(self.sum, given[:, 0] + given[:, 1], out=both)
            np.matmul(self.difference, given[:, 0] - given[:, 1], out=apart)
            np.add(both, apart, out=hidden[:, 0])
            np.subtract(both, apart, out=hidden[:, 1])
        else:
            np.matmul(self.own, np.ascontiguousarray(given).reshape(len(given), -1), out=hidden.reshape(H, -1))
            hidden += (self.mean @ given.mean(axis=1))[:, None]
        np.multiply(hidden, _SLOPE, out=other)
        np.maximum(hidden, other, out=hidden)
        np.add((self.last @ hidden.reshape(H, -1)).reshape(-1, d, n), self.bias[:, None], out=found)


_COLUMNS = 2048  # Edge states whose hidden layers are computed together: they should stay in the near cache.


class Gru:
    """A gated recurrent unit on an input [K, N] that contains its hidden state, a row of ones and all other rows.

    Args:
        weights: of the model file.
        name: of the cell.
        order: for each row of the input the column of `weight_ih`; -1 - c for hidden channel c; None for the ones.
    """

    def __init__(self, weights: Mapping[str, Any], name: str, order: Sequence[int | None]) -> None:
        given, hidden = weights[f"{name}.weight_ih"], weights[f"{name}.weight_hh"]
        b_given, b_hidden = weights[f"{name}.bias_ih"], weights[f"{name}.bias_hh"]
        C = self.channels = hidden.shape[1]
        gates = np.zeros((3 * C, len(order)), np.float32)  # Both gates and the new value, without the hidden state.
        again = np.zeros((C, len(order)), np.float32)  # What the hidden state adds to the new value.
        for row, column in enumerate(order):
            if column is None:
                gates[:, row] = b_given
                gates[: 2 * C, row] += b_hidden[: 2 * C]
                again[:, row] = b_hidden[2 * C :]
            elif column >= 0:
                gates[:, row] = given[:, column]
            else:
                gates[: 2 * C, row] = hidden[: 2 * C, -1 - column]
                again[:, row] = hidden[2 * C :, -1 - column]
        gates[: 2 * C] *= 0.5  # sigmoid(x) = (1 + tanh(x / 2)) / 2
        again *= 0.5  # The reset gate is used as 1 + tanh.
        used = np.flatnonzero(np.any(again != 0, axis=0) | np.array([c is None or c < 0 for c in order]))
        self.again_rows = slice(int(used[0]), int(used[-1]) + 1)
        self.gates, self.again = gates, np.ascontiguousarray(again[:, self.again_rows])

    def __call__(self, values: Any, hidden: Any) -> Any:
        """Return the next hidden state [C, N]."""
        C = self.channels
        gates = self.gates @ values
        new = self.again @ values[self.again_rows]
        both = gates[: 2 * C]
        np.tanh(both, out=both)
        both += np.float32(1.0)
        new *= gates[:C]
        new += gates[2 * C :]
        np.tanh(new, out=new)
        kept = gates[C : 2 * C]
        kept *= np.float32(0.5)
        kept *= hidden - new
        new += kept
        return new
