"""Layers of the native networks. Inputs and outputs are [channels, columns], and a layer is one matrix product."""

from __future__ import annotations

import copy
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
    """Set values to arsinh(x) in place and return them: a network sees log messages in this form."""
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


def linear_shapes(name: str, given: int, wanted: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of one linear layer, as torch names them."""
    return {f"{name}.weight": (wanted, given), f"{name}.bias": (wanted,)}


def mlp_shapes(name: str, sizes: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of an MLP, whose activations have numbers too."""
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


def _padded(matrix: Any) -> Any:
    """Return a matrix with rows of zeros up to a multiple of four, flat, as kernels take it."""
    rows = -len(matrix) % 4
    return np.concatenate((matrix, np.zeros((rows, matrix.shape[1]), np.float32))).astype(np.float32).ravel()


class Mlp:
    """Linear layers with activations between them: max(x, slope x)."""

    def __init__(self, layers: Sequence[tuple[Any, Any]], slope: float = float(_SLOPE)) -> None:
        self.layers, self.slope = [(weight, bias[:, None]) for weight, bias in layers], np.float32(slope)
        self.num_out = len(layers[-1][1])
        sizes, matrices, biases = [layers[0][0].shape[1]], [], []
        for weight, bias in layers:
            rows = -len(weight) % 4
            columns = np.zeros((len(weight), sizes[-1] - weight.shape[1]), np.float32)  # for the rows added before
            matrices.append(_padded(np.concatenate((weight, columns), axis=1)))
            biases.append(np.concatenate((bias, np.zeros(rows, np.float32))))
            sizes.append(len(weight) + rows)
        self.padded = np.concatenate(matrices), np.concatenate(biases).astype(np.float32), np.array(sizes)

    @classmethod
    def of(cls, weights: Mapping[str, Any], name: str, count: int, slope: float = float(_SLOPE)) -> Mlp:
        """Return the layers of a model file whose names begin with `name`."""
        names = [f"{name}.{2 * n}" for n in range(count)]
        return cls([(weights[f"{n}.weight"], weights[f"{n}.bias"]) for n in names], slope)

    def with_first(self, weight: Any, bias: Any) -> Mlp:
        """Return the same network with another first layer of the same size."""
        other = copy.copy(self)
        weights, biases = (values.copy() for values in self.padded[:2])
        weights[: weight.size], biases[: len(bias)] = weight.ravel(), bias
        other.padded, other.layers = (weights, biases, self.padded[2]), [(weight, bias[:, None]), *self.layers[1:]]
        return other

    def __call__(self, values: Any, compiled: bool) -> Any:
        """Return the output [M, N] of the last layer."""
        if compiled and values.shape[1] >= 16:
            from equifactor.solvers.learned.native.network_kernels import mlp

            out = np.empty((self.num_out, values.shape[1]), np.float32)
            mlp(values.ravel(), values.shape[1], *self.padded, self.slope, out.ravel())
            return out
        for n, (weight, bias) in enumerate(self.layers):
            values = weight @ (np.maximum(values, values * self.slope) if n else values)
            values += bias
        return values


class MeanMlp:
    """A network of two layers that sees values of a state and means over the states of its edge.

    In plain NumPy, for two states it computes W sum/2 and W difference/2, which takes half of the multiplications.
    """

    def __init__(self, own: Any, mean: Any, bias: Any, last: Any, last_bias: Any) -> None:
        (H, self.num_in), self.num_out = own.shape, len(last)
        all_means = np.zeros_like(own)
        all_means[:, : mean.shape[1]] = mean
        self.own, self.mean, self.bias = own.astype(np.float32), all_means, bias[:, None].astype(np.float32)
        self.last, self.last_bias = np.ascontiguousarray(last), last_bias[:, None, None].astype(np.float32)
        spare = np.zeros(-H % 4, np.float32)  # Hidden units that have no effect.
        columns = np.concatenate((last, np.zeros((len(last), len(spare)), np.float32)), axis=1)
        self.padded = (
            _padded(own), _padded(all_means), np.concatenate((bias, spare)), _padded(columns), np.array(last_bias)
        )  # fmt: skip

    def __call__(self, wiring: NativeWiring, values: Any) -> Any:
        """Return the output [M, S2] for the input [K, S2]."""
        size = values.shape[1]
        out = np.empty((self.num_out, size), np.float32)
        for rows in wiring.rows:
            if wiring.compiled:
                from equifactor.solvers.learned.native.network_kernels import mean_mlp

                mean_mlp(values.ravel(), size, *rows, *self.padded, out.ravel())
                continue
            step = max(1, _COLUMNS // rows.card)
            given, found = rows.of(values), rows.of(out)
            for start in range(0, rows.num, step):
                columns = slice(start, start + step)
                hidden = self._hidden(given[:, :, columns])
                np.maximum(hidden, hidden * _SLOPE, out=hidden)
                last = self.last @ hidden.reshape(len(hidden), -1)
                np.add(last.reshape(self.num_out, *hidden.shape[1:]), self.last_bias, out=found[:, :, columns])
        return out

    def _hidden(self, given: Any) -> Any:
        """Return the first layer [H, d, n] of some edges [K, d, n] before its activation."""
        K, d, n = given.shape
        if d == 2:
            half = 0.5 * (given[:, 0] + given[:, 1])
            both = (self.own + self.mean) @ half
            both += self.bias
            apart = self.own @ (given[:, 0] - half)
            return np.stack((both + apart, both - apart), axis=1)
        hidden = (self.own @ given.reshape(K, -1)).reshape(-1, d, n)
        hidden += (self.mean @ given.mean(axis=1) + self.bias)[:, None]
        return hidden


# Edge states whose hidden layers are computed together in plain NumPy. Halved: fe-net takes 5 to 7 % more CPU on grids;
# doubled: the same CPU. Compared once, by hand.
_COLUMNS = 4096


class Gru:
    """A gated recurrent unit on an input [K, N] that contains its hidden state, a row of ones and all other rows.

    Args:
        weights: of the model file.
        name: of the cell.
        order: for each row of the input the column of `weight_ih`; -1 - c for hidden channel c; None for the ones. It
            begins with the hidden channels and the ones.
    """

    def __init__(self, weights: Mapping[str, Any], name: str, order: Sequence[int | None]) -> None:
        given, hidden = weights[f"{name}.weight_ih"], weights[f"{name}.weight_hh"]
        b_given, b_hidden = weights[f"{name}.bias_ih"], weights[f"{name}.bias_hh"]
        C = self.channels = hidden.shape[1]
        self.gates = np.zeros((3 * C, len(order)), np.float32)  # Both gates, and the new value from all other rows.
        self.gates[:, C + 1 :] = given[:, [column for column in order[C + 1 :] if column is not None]]
        self.gates[: 2 * C, :C] = hidden[: 2 * C]
        self.gates[:, C] = b_given
        self.gates[: 2 * C, C] += b_hidden[: 2 * C]
        self.gates[: 2 * C] *= 0.5  # sigmoid(x) = (1 + tanh(x / 2)) / 2
        # What the hidden state adds to the new value. The reset gate is used as 1 + tanh.
        self.again = 0.5 * np.concatenate((hidden[2 * C :], b_hidden[2 * C :, None]), axis=1)
        self.padded = _padded(self.gates), _padded(self.again)

    def __call__(self, values: Any, compiled: bool) -> Any:
        """Return the next hidden state [C, N]."""
        C, size = self.channels, values.shape[1]
        if compiled:
            from equifactor.solvers.learned.native.network_kernels import gru

            out = np.empty((C, size), np.float32)
            gru(values.ravel(), size, *self.padded, C, out.ravel())
            return out
        gates = self.gates @ values
        new = self.again @ values[: C + 1]
        both = gates[: 2 * C]
        np.tanh(both, out=both)
        both += np.float32(1.0)
        new *= gates[:C]
        new += gates[2 * C :]
        np.tanh(new, out=new)
        kept = gates[C : 2 * C]
        kept *= np.float32(0.5)
        kept *= values[:C] - new
        new += kept
        return new
